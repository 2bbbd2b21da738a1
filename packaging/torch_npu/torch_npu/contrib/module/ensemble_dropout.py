# SPDX-License-Identifier: Apache-2.0
"""Dropout under the names that scripts use."""

from __future__ import annotations

import torch

__all__ = ["NpuCachedDropout", "NpuFairseqDropout"]


class NpuCachedDropout(torch.nn.Dropout):
    """The same as ``torch.nn.Dropout``."""

    def __init__(self, p: float, module_name: str | None = None):
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)

    @classmethod
    def enable_dropout_ensemble(cls, model: torch.nn.Module) -> None:
        """Does nothing. An NPU can draw for all such modules of ``model`` at once."""


class NpuFairseqDropout(NpuCachedDropout):
    """The same as ``torch.nn.Dropout``."""
