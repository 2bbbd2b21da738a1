# SPDX-License-Identifier: Apache-2.0
"""Names of the vendor's transformer operators."""

from torch_npu.op_plugin.atb import _atb_ops as _atb_ops
