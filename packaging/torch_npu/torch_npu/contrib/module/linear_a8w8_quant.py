# SPDX-License-Identifier: Apache-2.0
"""Linear layers of int8 under their older name."""

from torch_npu.contrib.module.linear_quant import LinearQuant

__all__ = ["LinearA8W8Quant"]


class LinearA8W8Quant(LinearQuant):
    """The same as ``LinearQuant``."""
