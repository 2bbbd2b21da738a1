# SPDX-License-Identifier: Apache-2.0
"""Sizes and strides of fake tensors: how they lie in memory, and as texts of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.fx.translate.symbolic import SymbolicConverter, Unsupported
from npugraph.fx.values import expressions
from npugraph.ge import attr


def is_row_major(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of a dense row-major tensor. Strides of dimensions of size 1 do not matter."""
    return _is_dense_in(range(tensor.dim()), tensor)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of a dense tensor with its dimensions in some order. False if nobody knows it."""
    return memory_order(tensor) is not None


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """The dimensions of a dense tensor as they lie in memory, the one with the largest stride first. None if the tensor
    is not dense, or if nobody knows it."""
    if is_row_major(tensor):
        return list(range(tensor.dim()))
    strides = [_hint(stride) for stride in tensor.stride()]
    if None in strides:
        return None
    order = sorted(range(tensor.dim()), key=lambda dim: -strides[dim])
    return order if _is_dense_in(order, tensor) else None


def _is_dense_in(order: Sequence[int], tensor: torch.Tensor) -> bool:
    """Whether the tensor is dense with its dimensions in this order, the one with the largest stride first."""
    sizes, strides = expressions(tensor.size()), expressions(tensor.stride())
    expected: Any = 1
    for dim in reversed(order):
        if sizes[dim] == 1:
            continue
        if strides[dim] != expected:
            return False
        expected = expected * (max(sizes[dim], 1) if isinstance(sizes[dim], int) else sizes[dim])
    return True


def _hint(number: int | torch.SymInt) -> Any:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def texts(numbers: Sequence[Any]) -> list[str] | None:
    """The numbers in the syntax of the engine (src/tensor/expr.h). None if it has no word for one."""
    converter = SymbolicConverter()
    try:
        return [str(converter(number)) for number in numbers]
    except Unsupported:
        return None


def write_texts(desc: Any, name: str, numbers: Sequence[Any]) -> None:
    """Writes numbers into an attribute of a descriptor, as a list of texts. Without numbers, or if the engine has no
    words for them, it is left out."""
    words = texts(numbers)
    if words:
        attr.ListStr(words).write(desc.attr[name])
