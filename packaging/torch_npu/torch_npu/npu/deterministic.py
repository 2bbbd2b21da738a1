# SPDX-License-Identifier: Apache-2.0
"""Deterministic algorithms in a part of a backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


class _Switch(torch.autograd.Function):
    """Sets determinism on the way forward, and its opposite on the way back: so the part of the backward pass between
    two switches is as its part forward was."""

    @staticmethod
    def forward(ctx, tensor: Tensor, enable: bool) -> Tensor:
        ctx.enable = enable
        torch.use_deterministic_algorithms(enable)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.enable)
        return grad, None


def enable_deterministic_with_backward(tensor: Tensor) -> Tensor:
    """``tensor``; from here on algorithms are deterministic, and on the way back until here."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: Tensor) -> Tensor:
    """``tensor``; from here on algorithms need not be deterministic, and on the way back they are from here on."""
    return _Switch.apply(tensor, False)
