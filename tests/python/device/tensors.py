# SPDX-License-Identifier: Apache-2.0
"""Tensors of nested values, on npu."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def to_npu(value: Any) -> Any:
    """Returns ``value`` with every cpu tensor on npu, with a copy of its whole storage. Devices and "cpu" become
    npu."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return _tensor_to_npu(leaf.detach()).requires_grad_(leaf.requires_grad)
        return torch.device("npu") if isinstance(leaf, torch.device) or leaf == "cpu" else leaf

    return pytree.tree_map(move, value)


def _tensor_to_npu(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return tensor.to("npu")
    own = torch.empty(0, dtype=tensor.dtype, device="npu")
    own.set_(tensor.untyped_storage().npu(), tensor.storage_offset(), tensor.shape, tensor.stride())
    own = own.conj() if tensor.is_conj() else own
    return own._neg_view() if tensor.is_neg() else own


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns all tensors in ``value``, in order."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
