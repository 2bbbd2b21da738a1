# SPDX-License-Identifier: Apache-2.0
"""The model set, the measuring harness and the benchmarks of npugraph."""
