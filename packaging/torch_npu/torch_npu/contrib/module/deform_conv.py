# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions, which choose where they read (Zhu et al., Deformable ConvNets v2, 2019)."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.autograd import Function
from torch.nn.modules.utils import _pair

__all__ = ["ModulatedDeformConv", "ModulatedDeformConv2dFunction"]


def _x_before_y(channels: int, device: torch.device) -> torch.Tensor:
    """Returns the order that takes channels y, x, y, x, ... to all of x, then all of y, as ``npu_deformable_conv2d``
    wants them."""
    places = torch.arange(channels, device=device)
    return torch.cat([places[1::2], places[::2]])


class ModulatedDeformConv2dFunction(Function):
    """Calls ``npu_deformable_conv2d`` with masks, and with offsets in which y and x of each tap alternate."""

    @staticmethod
    def forward(
        ctx,
        input_tensor,
        offset_ori,
        mask,
        weight,
        bias=None,
        with_bias=False,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        deformable_groups=1,
        sort_index_for_npu_fp=None,
        sort_index_for_npu_bp=None,
    ):
        """``with_bias`` says whether ``bias`` counts. ``sort_index_for_npu_fp`` is the order in which the operator
        reads channels of ``offset_ori``; by default all of x comes before all of y. ``sort_index_for_npu_bp`` is the
        inverse order."""
        fp, bp, device = sort_index_for_npu_fp, sort_index_for_npu_bp, offset_ori.device
        fp = _x_before_y(offset_ori.shape[1], device) if fp is None else torch.as_tensor(fp, device=device)
        bp = fp.argsort() if bp is None else torch.as_tensor(bp, device=device)
        offset = torch.cat([offset_ori.index_select(1, fp), mask], 1)
        (down, right), (top, left), (tall, wide) = _pair(stride), _pair(padding), _pair(dilation)
        ctx.how = (
            list(weight.shape[2:]),
            [1, 1, down, right],
            [top, top, left, left],
            [1, 1, tall, wide],
            groups,
            deformable_groups,
        )
        out, samples = torch.ops.npu.npu_deformable_conv2d(
            input_tensor, weight, offset, bias if with_bias else None, *ctx.how
        )
        ctx.save_for_backward(input_tensor, weight, samples, offset, bp)
        ctx.with_bias = with_bias
        return out

    @staticmethod
    def backward(ctx, grad_output):
        input_tensor, weight, samples, offset, bp = ctx.saved_tensors
        of_input, of_weight, of_all, of_bias = torch.ops.npu.npu_deformable_conv2dbk(
            input_tensor, grad_output, samples, weight, offset, *ctx.how
        )
        of_places, of_mask = of_all.split([len(bp), of_all.shape[1] - len(bp)], 1)
        of_offset = of_places.index_select(1, bp)
        return of_input, of_offset, of_mask, of_weight, of_bias if ctx.with_bias else None, *(None,) * 8


class ModulatedDeformConv(nn.Module):
    """A deformable convolution with masks. Raises ValueError for channels that the groups do not divide.

    Args:
        pack: whether offsets and masks come from a convolution of the input, whose weights begin with zeros. Otherwise
            the input is (input, offset, mask).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = True,
        pack: bool = True,
    ):
        super().__init__()
        if in_channels % groups or out_channels % groups or in_channels % deformable_groups:
            raise ValueError(
                f"ModulatedDeformConv: {in_channels} and {out_channels} channels in {groups} groups, of which "
                f"{deformable_groups} read at their own places"
            )
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups, self.deformable_groups = groups, deformable_groups
        self.with_bias, self.pack = bias, pack
        kernel = _pair(kernel_size)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *kernel))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        if pack:
            taps = deformable_groups * kernel[0] * kernel[1]
            self.conv_offset = nn.Conv2d(in_channels, 3 * taps, kernel, stride, padding, dilation)
        self.init_param()

    def init_param(self) -> None:
        """Draws new weights. Samples are then those of a plain convolution, with masks of a half."""
        bound = 1 / math.sqrt(self.weight[0].numel() * self.groups)
        nn.init.uniform_(self.weight, -bound, bound)
        for zero in (self.bias, *(self.conv_offset.parameters() if self.pack else ())):
            if zero is not None:
                nn.init.zeros_(zero)

    def forward(self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        if self.pack:
            both = self.conv_offset(x)
            offset, mask = both.split([both.shape[1] // 3 * 2, both.shape[1] // 3], 1)
            mask = mask.sigmoid()
        else:
            x, offset, mask = x
        return ModulatedDeformConv2dFunction.apply(
            x,
            offset,
            mask,
            self.weight,
            self.bias,
            self.with_bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.deformable_groups,
        )
