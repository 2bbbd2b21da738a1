# SPDX-License-Identifier: Apache-2.0
"""Shuffling of channels."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["ChannelShuffle"]


def indexselect_full_implementation_forward(x1: torch.Tensor, x2: torch.Tensor, fp_index: torch.Tensor) -> torch.Tensor:
    """Concatenates the channels of two images, and returns the channels ``fp_index`` of that."""
    return torch.cat([x1, x2], 1).index_select(1, fp_index)


def indexselect_half_implementation_forward(
    x1: torch.Tensor, x2: torch.Tensor, fp_index1: torch.Tensor, fp_index2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Concatenates the channels of two images, and returns the channels ``fp_index1`` and the channels ``fp_index2`` of
    that."""
    both = torch.cat([x1, x2], 1)
    return both.index_select(1, fp_index1), both.index_select(1, fp_index2)


class IndexSelectFullImplementation(torch.autograd.Function):
    """Calls ``indexselect_full_implementation_forward``. ``bp_index1`` and ``bp_index2`` say where the channels of each
    image are in the result."""

    @staticmethod
    def forward(ctx, x1, x2, fp_index, bp_index1, bp_index2):
        ctx.save_for_backward(bp_index1, bp_index2)
        return indexselect_full_implementation_forward(x1, x2, fp_index)

    @staticmethod
    def backward(ctx, grad_output):
        first, second = (grad_output.index_select(1, index) for index in ctx.saved_tensors)
        return first, second, None, None, None


class IndexSelectHalfImplementation(torch.autograd.Function):
    """Calls ``indexselect_half_implementation_forward``. ``bp_index1`` and ``bp_index2`` say where the channels of each
    image are in the concatenation of both results."""

    @staticmethod
    def forward(ctx, x1, x2, fp_index1, fp_index2, bp_index1, bp_index2):
        ctx.save_for_backward(bp_index1, bp_index2)
        return indexselect_half_implementation_forward(x1, x2, fp_index1, fp_index2)

    @staticmethod
    def backward(ctx, grad_output1, grad_output2):
        both = torch.cat([grad_output1, grad_output2], 1)
        first, second = (both.index_select(1, index) for index in ctx.saved_tensors)
        return first, second, None, None, None, None


class ChannelShuffle(nn.Module):
    """Interleaves the channels of two images [n, c, h, w] (ShuffleNet, 2018). Returns one image, or its two halves.

    Args:
        in_channels: number of channels of both images together.
        groups: must be 2; any other number raises ValueError.
        split_shuffle: whether the result is returned as two halves.
    """

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True):
        super().__init__()
        if groups != 2:
            raise ValueError(f"ChannelShuffle: groups is {groups}, allowed is 2")
        self.in_channels = in_channels
        self.split_shuffle = split_shuffle

    def check_self(self, x: torch.Tensor) -> None:
        """Raises ValueError unless ``x`` has half of the channels."""
        if x.shape[1] * 2 != self.in_channels:
            raise ValueError(f"ChannelShuffle: an input has {x.shape[1]} channels, allowed are {self.in_channels // 2}")

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        self.check_self(x1)
        self.check_self(x2)
        out = torch.stack([x1, x2], 2).flatten(1, 2)
        return tuple(out.chunk(2, 1)) if self.split_shuffle else out
