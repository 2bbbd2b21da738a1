# SPDX-License-Identifier: Apache-2.0
"""Writes by condition."""

from __future__ import annotations

import torch

__all__ = ["npu_fast_condition_index_put"]


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: float) -> torch.Tensor:
    """Writes ``value`` into ``x`` where ``condition`` is true, and returns ``x``. ``condition`` is a tensor of bool for
    the first dimensions of ``x``."""
    return x.masked_fill_(condition.reshape(condition.shape + (1,) * (x.dim() - condition.dim())), value)
