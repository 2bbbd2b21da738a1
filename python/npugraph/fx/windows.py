# SPDX-License-Identifier: Apache-2.0
"""Puts tensors into storages as the program promised it, in a call."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def lying_so(tensor: torch.Tensor, strides: Sequence[int], offset: int) -> torch.Tensor:
    """Returns the tensor, or a copy of it, with these strides and this offset in its storage."""
    lies_so = tensor.stride() == tuple(strides) and tensor.storage_offset() == offset
    return tensor if lies_so else _laid_out(tensor, strides, offset)


def _laid_out(tensor: torch.Tensor, strides: Sequence[int], offset: int) -> torch.Tensor:
    """Returns a copy with these strides and this offset in a new storage. Elements of a dimension of stride 0 are one
    element."""
    sizes = [min(size, 1) if stride == 0 else size for size, stride in zip(tensor.shape, strides, strict=True)]
    behind = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
    memory = tensor.new_empty(behind)
    memory.as_strided(sizes, strides, offset).copy_(tensor[tuple(slice(size) for size in sizes)])
    return memory.as_strided(tensor.shape, strides, offset)
