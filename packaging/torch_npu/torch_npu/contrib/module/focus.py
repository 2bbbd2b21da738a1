# SPDX-License-Identifier: Apache-2.0
"""The first layer of YOLOv5."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["Conv", "Focus"]


def autopad(k: int | list[int], p: int | list[int] | None = None) -> int | list[int]:
    """Returns ``p``, or the padding that keeps sizes if ``p`` is None."""
    if p is not None:
        return p
    return k // 2 if isinstance(k, int) else [one // 2 for one in k]


class Conv(nn.Module):
    """Convolution, batch norm and activation. ``act`` is True for SiLU, False for none, or a module."""

    def __init__(
        self,
        c1: int,
        c2: int,
        k: int = 1,
        s: int = 1,
        p: int | None = None,
        g: int = 1,
        act: bool | nn.Module = True,
    ):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k, p), groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.SiLU() if act is True else (act if isinstance(act, nn.Module) else nn.Identity())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))

    def fuseforward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs without the batch norm, once that is part of the weights."""
        return self.act(self.conv(x))


def fast_slice(x: torch.Tensor) -> torch.Tensor:
    """Returns four images of half the size, which consist of every second pixel, as channels."""
    return torch.cat([x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)], 1)


class Focus(nn.Module):
    """``Conv`` of the result of ``fast_slice``."""

    def __init__(
        self,
        c1: int,
        c2: int,
        k: int = 1,
        s: int = 1,
        p: int | None = None,
        g: int = 1,
        act: bool | nn.Module = True,
    ):
        super().__init__()
        self.conv = Conv(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(fast_slice(x))
