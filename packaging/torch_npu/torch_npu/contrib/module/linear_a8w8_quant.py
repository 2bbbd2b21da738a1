# SPDX-License-Identifier: Apache-2.0
"""Linear layers of int8, by their older name."""

import torch
from torch import Tensor

from torch_npu.contrib.module.linear_quant import LinearQuant

__all__ = ["LinearA8W8Quant"]


class LinearA8W8Quant(LinearQuant):
    """``LinearQuant``."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        offset: bool = False,
        pertoken_scale: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        output_dtype: torch.dtype | None = None,
    ):
        super().__init__(
            in_features,
            out_features,
            bias=bias,
            offset=offset,
            pertoken_scale=pertoken_scale,
            device=device,
            dtype=dtype,
            output_dtype=output_dtype,
        )

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        return super().forward(linear_quant_input)
