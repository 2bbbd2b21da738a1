# SPDX-License-Identifier: Apache-2.0
"""A product with a transposed matrix."""

from __future__ import annotations

import torch

__all__ = ["matmul_transpose"]


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """Returns ``tensor1 @ tensor2.mT``."""
    return tensor1 @ tensor2.mT
