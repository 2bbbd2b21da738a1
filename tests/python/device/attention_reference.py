# SPDX-License-Identifier: Apache-2.0
"""Attention by its definition, in the dtype of its arguments: a reference for tests."""

from __future__ import annotations

from collections.abc import Sequence

import torch

MINUS_INFINITY = float("-inf")


def by_heads(x: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    """Returns ``x`` as [batches, heads, rows, size]."""
    if layout == "BSH":
        return x.view(*x.shape[:2], heads, -1).transpose(1, 2)
    if layout == "SBH":
        return x.view(*x.shape[:2], heads, -1).permute(1, 2, 0, 3)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "TND":
        return x.transpose(0, 1)[None]
    return x[None] if layout == "NTD" else x


def from_heads(x: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "NBSD":
        return x.transpose(0, 1)
    if layout == "TND":
        return x[0].transpose(0, 1)
    return x[0] if layout == "NTD" else x


def sees(mode: int, row: int, column: int, rows: int, columns: int, pre: int, next: int, prefix: int = 0) -> bool:
    """Returns whether a row sees a column, in the sparse modes that need no mask."""
    right = columns - rows
    if mode == 0:
        return row - pre <= column <= row + next
    if mode == 2:
        return column <= row
    if mode == 3:
        return column <= row + right
    if mode == 4:
        return row + right - pre <= column <= row + right + next
    return column <= row + right or column < prefix


def seen(rows: int, columns: int, mode: int, pre: int = 2**31, next: int = 2**31, prefix: int = 0) -> torch.Tensor:
    lines = [[sees(mode, i, j, rows, columns, pre, next, prefix) for j in range(columns)] for i in range(rows)]
    return torch.tensor(lines, dtype=torch.bool).view(rows, columns)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    *,
    bias: torch.Tensor | None = None,
    visible: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns result, maxima and sums (.., 1) for tensors of [batches, heads, rows, size]. ``factors`` multiply the
    weights, as dropout does."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = torch.einsum("bhid,bhjd->bhij", query, key) * scale
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, MINUS_INFINITY)
    if sink is not None:
        scores = torch.cat([scores, sink.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    floor = torch.full_like(scores[..., :1].sum(-1, keepdim=True), MINUS_INFINITY)  # if there are no columns
    maxima = torch.cat([scores, floor], -1).amax(-1, keepdim=True).detach()
    powers = torch.exp(scores - maxima.masked_fill(maxima.isinf(), 0))
    sums = powers.sum(-1, keepdim=True)
    weights = powers / sums.masked_fill(sums == 0, 1)
    weights = weights[..., : key.shape[2]]
    if factors is not None:
        weights = weights * factors
    return torch.einsum("bhij,bhjd->bhid", weights, value), maxima, sums.detach()


def starts_and_ends(ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip([0, *ends[:-1]], ends, strict=True))
