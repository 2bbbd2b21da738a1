# SPDX-License-Identifier: Apache-2.0
"""Parameters of layers that are not trained."""

from __future__ import annotations

import torch
from torch import nn


def frozen(shape: tuple[int, ...], dtype: torch.dtype | None, device: torch.device | None) -> nn.Parameter:
    """Returns a parameter without values and without a gradient."""
    return nn.Parameter(torch.empty(shape, dtype=dtype, device=device), requires_grad=False)
