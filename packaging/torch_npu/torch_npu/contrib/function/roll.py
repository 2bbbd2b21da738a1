# SPDX-License-Identifier: Apache-2.0
"""Rolling of tensors."""

from __future__ import annotations

import torch

from torch_npu.npu import _torch_functions as _torch

__all__ = ["roll"]


def roll(input1: torch.Tensor, shifts: int | tuple[int, ...], dims: int | tuple[int, ...]) -> torch.Tensor:
    """Calls ``torch.roll``."""
    return _torch.roll(input1, shifts, dims)
