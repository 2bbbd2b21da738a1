# SPDX-License-Identifier: Apache-2.0
"""Linear layers with quantised weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_npu.contrib.module._parameters import frozen

__all__ = ["LinearWeightQuant"]


class LinearWeightQuant(nn.Module):
    """Calls ``npu_weight_quant_batchmatmul`` with a weight [out_features, in_features], by default of int8.

    Args:
        dtype: the type of inputs, and of scales and offsets of the weight.
        antiquant_offset, quant_scale, quant_offset: whether the operator gets these arguments.
        antiquant_group_size: number of inputs that share a scale of the weight; 0 for all of them.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        antiquant_offset: bool = False,
        quant_scale: bool = False,
        quant_offset: bool = False,
        antiquant_group_size: int = 0,
        inner_precise: int = 0,
        weight_dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.antiquant_group_size = antiquant_group_size
        self.inner_precise = inner_precise

        groups = -(-in_features // antiquant_group_size) if antiquant_group_size else 0
        per_channel = (out_features, groups) if groups else (out_features,)
        self.weight = frozen((out_features, in_features), weight_dtype or torch.int8, device)
        self.antiquant_scale = frozen(per_channel, dtype, device)
        self.antiquant_offset = frozen(per_channel, dtype, device) if antiquant_offset else None
        self.quant_scale = frozen((out_features,), torch.float32, device) if quant_scale else None
        self.quant_offset = frozen((out_features,), torch.float32, device) if quant_offset else None
        of_bias = torch.float32 if dtype == torch.bfloat16 else dtype
        self.bias = frozen((out_features,), of_bias, device) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        def per_group(tensor: Tensor | None) -> Tensor | None:
            return tensor.mT if tensor is not None and self.antiquant_group_size else tensor

        return torch.ops.npu.npu_weight_quant_batchmatmul(
            x,
            self.weight.mT,
            per_group(self.antiquant_scale),
            per_group(self.antiquant_offset),
            self.quant_scale,
            self.quant_offset,
            self.bias,
            self.antiquant_group_size,
            self.inner_precise,
        )
