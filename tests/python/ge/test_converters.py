# SPDX-License-Identifier: Apache-2.0
"""What each converter makes of calls: operators of Ascend IR, how they are wired, their attributes and constants."""

from __future__ import annotations

import torch

aten = torch.ops.aten
f32, i64, flags = torch.float32, torch.int64, torch.bool


def t(*size: int, dtype: torch.dtype = f32) -> torch.Tensor:
    return torch.ones(size, dtype=dtype)
