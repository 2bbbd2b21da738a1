# SPDX-License-Identifier: Apache-2.0
"""What tests of operators of npu are written with."""
