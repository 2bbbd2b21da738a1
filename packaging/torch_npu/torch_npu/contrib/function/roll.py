# SPDX-License-Identifier: Apache-2.0
"""Rolled tensors."""

from __future__ import annotations

import torch

__all__ = ["roll"]


def roll(input1: torch.Tensor, shifts: int | tuple[int, ...], dims: int | tuple[int, ...]) -> torch.Tensor:
    """``torch.roll``."""
    return torch.roll(input1, shifts, dims)
