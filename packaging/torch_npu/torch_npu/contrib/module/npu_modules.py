# SPDX-License-Identifier: Apache-2.0
"""Dropout by another name."""

import torch

__all__ = ["DropoutWithByteMask"]


class DropoutWithByteMask(torch.nn.Dropout):
    """``torch.nn.Dropout``; ``max_seed`` is accepted, and without effect."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1):
        super().__init__(p, inplace)

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return super().forward(input1)
