# SPDX-License-Identifier: Apache-2.0
"""Deterministic algorithms in a part of a backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


class _Switch(torch.autograd.Function):
    """Sets determinism in the forward pass, and its opposite in the backward pass. So the part of the backward pass
    between two switches runs as the same part of the forward pass did."""

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
    """Returns a view of ``tensor``. Algorithms are deterministic from here on, and in the backward pass until here."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: Tensor) -> Tensor:
    """Returns a view of ``tensor``. Algorithms need not be deterministic from here on; in the backward pass they are
    from here on."""
    return _Switch.apply(tensor, False)
