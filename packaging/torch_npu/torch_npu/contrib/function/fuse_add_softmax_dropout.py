# SPDX-License-Identifier: Apache-2.0
"""Attention probabilities."""

from __future__ import annotations

import torch

__all__ = ["fuse_add_softmax_dropout"]


def fuse_add_softmax_dropout(
    training: bool,
    dropout: torch.nn.Module,
    attn_mask: torch.Tensor,
    attn_scores: torch.Tensor,
    attn_head_size: int,
    p: float = 0.5,
    dim: int = -1,
) -> torch.Tensor:
    """Returns softmax(attn_scores / sqrt(attn_head_size) + attn_mask). In training, dropout drops the share ``p`` of
    it."""
    return torch.nn.functional.dropout((attn_scores / attn_head_size**0.5 + attn_mask).softmax(dim), p, training)
