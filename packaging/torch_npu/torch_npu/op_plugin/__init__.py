# SPDX-License-Identifier: Apache-2.0
"""Names of the vendor's operator package."""

from torch_npu.op_plugin import atb as atb
