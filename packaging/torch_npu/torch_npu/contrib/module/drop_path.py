# SPDX-License-Identifier: Apache-2.0
"""Stochastic depth, which drops paths of a network."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["NpuDropPath"]


class NpuDropPath(nn.Module):
    """Drops whole samples with the probability ``drop_prob`` in training, and scales the others (Huang et al.,
    Stochastic Depth, 2016)."""

    def __init__(self, drop_prob: float | None = None):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.drop_prob or not self.training:
            return x
        kept = torch.rand(x.shape[:1] + (1,) * (x.dim() - 1), device=x.device) >= self.drop_prob
        return x / (1 - self.drop_prob) * kept

    @classmethod
    def enable_droppath_ensemble(cls, model: nn.Module) -> None:
        """Does nothing. An NPU can draw for all such modules of ``model`` at once."""
