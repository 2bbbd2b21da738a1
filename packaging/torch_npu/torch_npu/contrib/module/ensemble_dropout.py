# SPDX-License-Identifier: Apache-2.0
"""Dropout by the names that scripts use."""

from __future__ import annotations

import torch

__all__ = ["NpuCachedDropout", "NpuFairseqDropout"]


class NpuCachedDropout(torch.nn.Dropout):
    """``torch.nn.Dropout``."""

    def __init__(self, p: float, module_name: str | None = None):
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)

    @classmethod
    def enable_dropout_ensemble(cls, model: torch.nn.Module) -> None:
        """Accepted, and without effect: an NPU can draw for all such modules of ``model`` at once."""


class NpuFairseqDropout(NpuCachedDropout):
    """``torch.nn.Dropout``."""
