# SPDX-License-Identifier: Apache-2.0
"""Linear layers of int8."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_npu.contrib.module._parameters import frozen

__all__ = ["LinearQuant"]


class LinearQuant(nn.Module):
    """Calls ``npu_quant_matmul`` on int8 inputs and an int8 weight [out_features, in_features].

    Args:
        bias: whether there is a bias, of int32.
        offset, pertoken_scale: whether ``npu_quant_matmul`` gets these arguments, of float32. Callers set
            ``pertoken_scale`` to one element for each row.
        output_dtype: the type of the result.
    """

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
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.output_dtype = output_dtype
        self.weight = frozen((out_features, in_features), torch.int8, device)
        self.scale = frozen((out_features,), dtype or torch.float32, device)
        self.offset = frozen((out_features,), torch.float32, device) if offset else None
        self.pertoken_scale = frozen((1,), torch.float32, device) if pertoken_scale else None
        self.bias = frozen((out_features,), torch.int32, device) if bias else None

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        return torch.ops.npu.npu_quant_matmul(
            linear_quant_input,
            self.weight.mT,
            self.scale,
            offset=self.offset,
            pertoken_scale=self.pertoken_scale,
            bias=self.bias,
            output_dtype=self.output_dtype,
        )
