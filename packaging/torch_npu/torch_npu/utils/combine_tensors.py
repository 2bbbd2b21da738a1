# SPDX-License-Identifier: Apache-2.0
"""Tensors of npu that lie in the memory of one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]


def _sizes(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [torch.ops.npu.get_storage_size(tensor) for tensor in tensors]


def npu_combine_tensors(list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """Moves the tensors, one after the other, into the memory of a new tensor. Returns the new tensor, or None if none
    has elements. Raises ValueError for several types.

    Args:
        list_of_tensor: tensors of npu of one type.
        require_copy_value: whether they keep their values; otherwise they become zeros.
    """
    if len({tensor.dtype for tensor in list_of_tensor}) > 1:
        raise ValueError(f"npu_combine_tensors: types differ: {', '.join(str(one.dtype) for one in list_of_tensor)}")
    sizes = _sizes(list_of_tensor)
    if not sum(sizes):
        return None
    first = list_of_tensor[0]
    combined = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
    offset = 0
    for tensor, size in zip(list_of_tensor, sizes, strict=True):
        if require_copy_value:
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage(), 0, (size,))
            combined[offset : offset + size].copy_(whole)
        torch.ops.npu.npu_change_data_ptr(tensor, combined, offset)
        offset += size
    return combined


def get_part_combined_tensor(combined_tensor: torch.Tensor | None, index: int, size: int) -> torch.Tensor | None:
    """Returns ``size`` elements of ``combined_tensor`` from ``index`` on, over its memory. Returns None if there is no
    ``combined_tensor`` or ``size`` is 0. Raises ValueError for elements that it does not have."""
    if combined_tensor is None or size == 0:
        return None
    if not 0 <= index <= index + size <= combined_tensor.numel():
        raise ValueError(
            f"get_part_combined_tensor: elements {index} to {index + size} of a tensor of {combined_tensor.numel()}"
        )
    return combined_tensor.view(-1)[index : index + size]


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor]) -> bool:
    """Whether the tensors still lie in the memory of ``combined_tensor``, one after the other."""
    if combined_tensor is None:
        return not sum(_sizes(list_of_tensor))
    address = combined_tensor.data_ptr()
    for tensor in list_of_tensor:
        if tensor.untyped_storage().data_ptr() != address:
            return False
        address += tensor.untyped_storage().nbytes()
    return True
