# SPDX-License-Identifier: Apache-2.0
"""Tensors over memory that a connector of caches (``llm_datadist``) owns."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import torch

__all__ = ["create_npu_tensors"]


def create_npu_tensors(shape: Sequence[int], dtype: torch.dtype, addresses: Sequence[int]) -> list[torch.Tensor]:
    """Returns a tensor of npu over the memory at each address, which is memory of the host. All have the same sizes and
    element type, are dense and row-major, and are on the current device. They do not own the memory: it has to live as
    long as they do. Raises ``ValueError`` for sizes below 0, for addresses that are not positive or not a multiple of
    an element's size, ``TypeError`` for arguments of another kind, and ``RuntimeError`` without torch_npu."""
    torch_npu = sys.modules.get("torch_npu")
    if torch_npu is None:
        raise RuntimeError("create_npu_tensors makes tensors of npu: import torch_npu first")
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"create_npu_tensors takes a torch.dtype, got {dtype!r} ({type(dtype).__name__})")
    sizes, places = _ints("shape", shape), _ints("addresses", addresses)
    if any(size < 0 for size in sizes):
        raise ValueError(f"create_npu_tensors takes sizes of 0 or more, got {sizes}")
    for place in places:
        if place <= 0 or place % dtype.itemsize:
            raise ValueError(
                f"create_npu_tensors takes addresses of elements of {dtype.itemsize} bytes, got {place:#x} for {dtype}"
            )
    device, count = torch_npu.npu.current_device(), math.prod(sizes)
    storages = [
        torch_npu._C._construct_storage_from_data_pointer(place, device, count * dtype.itemsize) for place in places
    ]
    return [torch.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, sizes) for storage in storages]


def _ints(name: str, given: Sequence[int]) -> list[int]:
    if not isinstance(given, (list, tuple)) or not all(type(number) is int for number in given):
        raise TypeError(f"create_npu_tensors takes a list of ints as {name}, got {given!r}")
    return list(given)
