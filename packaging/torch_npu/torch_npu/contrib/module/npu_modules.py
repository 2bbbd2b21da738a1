# SPDX-License-Identifier: Apache-2.0
"""Dropout under another name."""

import torch

__all__ = ["DropoutWithByteMask"]


class DropoutWithByteMask(torch.nn.Dropout):
    """The same as ``torch.nn.Dropout``. ``max_seed`` has no effect."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1):
        super().__init__(p, inplace)

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return super().forward(input1)
