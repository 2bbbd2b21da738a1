# SPDX-License-Identifier: Apache-2.0
"""Dropout."""

from __future__ import annotations

import torch

__all__ = ["dropout_with_byte_mask"]


def dropout_with_byte_mask(
    input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """Calls ``torch.nn.functional.dropout``."""
    return torch.nn.functional.dropout(input1, p, training, inplace)
