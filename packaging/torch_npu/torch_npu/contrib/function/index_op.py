# SPDX-License-Identifier: Apache-2.0
"""Values by condition."""

from __future__ import annotations

import torch

__all__ = ["npu_fast_condition_index_put"]


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: float) -> torch.Tensor:
    """``x`` with ``value`` where ``condition``, a tensor of bool for its first dimensions, is true. Writes ``x``."""
    return x.masked_fill_(condition.reshape(condition.shape + (1,) * (x.dim() - condition.dim())), value)
