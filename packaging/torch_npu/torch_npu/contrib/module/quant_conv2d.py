# SPDX-License-Identifier: Apache-2.0
"""Convolutions of int8."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.common_types import _size_2_t
from torch.nn.modules.utils import _pair

from torch_npu.contrib.module._parameters import frozen

__all__ = ["QuantConv2d"]


class QuantConv2d(nn.Module):
    """Calls ``npu_quant_conv2d`` with an int8 weight [out_channels, in_channels / groups, height, width].

    Args:
        output_dtype: the type of the result, as a torch.dtype or its number.
        bias: whether there is a bias, of int32.
        offset: whether there is an offset of the result, of float32.
        offset_x: the value that stands for zero at the borders of the input.
        dtype: the type of the scale, by default int64, as ``npu_trans_quant_param`` returns it.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_2_t,
        output_dtype: int,
        stride: _size_2_t = 1,
        padding: _size_2_t = 0,
        dilation: _size_2_t = 1,
        groups: int = 1,
        bias: bool = True,
        offset: bool = False,
        offset_x: int = 0,
        round_mode: str = "rint",
        input_dtype: int | None = None,
        weight_dtype: int | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"QuantConv2d: {in_channels} and {out_channels} channels in {groups} groups")
        self.stride, self.padding, self.dilation, self.groups = _pair(stride), _pair(padding), _pair(dilation), groups
        self.offset_x, self.round_mode = offset_x, round_mode
        self.output_dtype, self.input_dtype, self.weight_dtype = output_dtype, input_dtype, weight_dtype
        self.weight = frozen((out_channels, in_channels // groups, *_pair(kernel_size)), torch.int8, device)
        self.scale = frozen((out_channels,), dtype or torch.int64, device)
        self.bias = frozen((out_channels,), torch.int32, device) if bias else None
        self.offset = frozen((out_channels,), torch.float32, device) if offset else None

    def forward(self, quant_conv2d_input: Tensor) -> Tensor:
        return torch.ops.npu.npu_quant_conv2d(
            quant_conv2d_input,
            self.weight,
            self.scale,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.offset_x,
            self.round_mode,
            self.output_dtype,
            self.bias,
            self.offset,
            self.input_dtype,
            self.weight_dtype,
        )
