# SPDX-License-Identifier: Apache-2.0
"""Tells exactly which memory small tensors occupy."""

from __future__ import annotations

import torch


def storage_key(t: torch.Tensor) -> int:
    """Returns a number that identifies the storage of a living tensor, even if the storage is empty."""
    return t.untyped_storage()._cdata


def elements(t: torch.Tensor) -> frozenset[int]:
    """Returns the positions in the storage that the tensor covers, in elements."""
    if t.numel() == 0:
        return frozenset()
    length = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    positions = torch.arange(t.storage_offset(), t.storage_offset() + length)
    return frozenset(positions.as_strided(t.shape, t.stride(), 0).reshape(-1).tolist())


def has_internal_overlap(t: torch.Tensor) -> bool:
    return len(elements(t)) < t.numel()


def overlaps(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share a byte or, if their element sizes differ, whether they share a storage."""
    if storage_key(a) != storage_key(b):
        return False
    return a.element_size() != b.element_size() or not elements(a).isdisjoint(elements(b))


def same_view(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same elements in the same places of one storage."""
    return storage_key(a) == storage_key(b) and _layout(a) == _layout(b)


def _layout(t: torch.Tensor) -> tuple[object, ...]:
    return t.dtype, tuple(t.shape), t.stride(), t.storage_offset()
