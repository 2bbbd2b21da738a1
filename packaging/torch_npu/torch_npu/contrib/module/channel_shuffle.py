# SPDX-License-Identifier: Apache-2.0
"""Shuffled channels."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["ChannelShuffle"]


class ChannelShuffle(nn.Module):
    """The channels of two images [n, c, h, w] in turns (ShuffleNet, 2018): of both as one, or as two halves.

    Args:
        in_channels: channels of both together.
        groups: 2.
        split_shuffle: whether the result is given as two halves.
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
