# SPDX-License-Identifier: Apache-2.0
"""Dropout by another name."""

import torch
from torch.nn import Module

__all__ = ["DropoutWithByteMask"]


class DropoutWithByteMask(Module):
    """``torch.nn.Dropout``; ``max_seed`` is accepted, and without effect."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"DropoutWithByteMask: p is {p}, and must be from 0 to 1")
        self.p = p
        self.inplace = inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(input1, self.p, self.training, self.inplace)
