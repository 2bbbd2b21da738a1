// SPDX-License-Identifier: Apache-2.0
// A library without kernels.
extern "C" int nothing() { return 0; }
