# SPDX-License-Identifier: Apache-2.0
"""The strides of results whose fake tensors have others than the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import _prims_common
from torch.utils._mode_utils import no_dispatch

aten = torch.ops.aten


def with_true_strides(func: Any, args: Sequence[Any], result: Any) -> Any:
    """Returns the fake ``result`` of a call, or a tensor like it with the strides that the real result has."""
    strides = _STRIDES[func](result, *args) if func in _STRIDES else None
    if strides is None or tuple(strides) == result.stride():
        return result
    return result.new_empty_strided(result.shape, strides)


def _strides_of_roll(
    result: torch.Tensor, value: torch.Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()
) -> Sequence[Any] | None:
    """On the CPU, ``roll`` is made of concatenations, so its result has their strides."""
    if not dims or value.dim() < 4 or value.is_contiguous() or value.numel() == 0:
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        size = value.size(dim)
        start = (size - shift) % size
        value = torch.cat([value.narrow(dim, start, size - start), value.narrow(dim, 0, start)], dim)
    return value.stride()


def _strides_of_index(
    result: torch.Tensor, value: torch.Tensor, indices: Sequence[torch.Tensor | None]
) -> Sequence[Any] | None:
    """The strides of ``index`` depend on those of its indices, too: TensorIterator orders the dimensions by all
    operands."""
    positions = [i for i, index in enumerate(indices) if index is not None]
    masks = (torch.bool, torch.uint8)  # a mask stands for as many indices as it has dimensions
    if not positions or any(indices[i].dtype in masks for i in positions):
        return None
    given = torch.broadcast_tensors(*(indices[i] for i in positions))
    before = positions[0]
    if positions[-1] - before + 1 != len(positions):
        value, before = value.movedim(positions, list(range(len(positions)))), 0
    behind = before + len(positions)
    strides = [*value.stride()[:before], *[0] * given[0].dim(), *value.stride()[behind:]]
    operands = [value.as_strided(result.shape, strides)]
    operands += [_between_ones(index, before, value.dim() - behind).expand(result.shape) for index in given]
    order, _ = _prims_common.compute_elementwise_output_logical_to_physical_perm(*operands)
    dense = _prims_common.make_contiguous_strides_for(_prims_common.apply_perm(result.shape, order))
    return _prims_common.apply_perm(dense, _prims_common.invert_perm(order))


_STRIDES = {aten.index.Tensor: _strides_of_index, aten.roll.default: _strides_of_roll}
CORRECTED = frozenset(_STRIDES)  # the operators of which with_true_strides() knows something


def _between_ones(index: torch.Tensor, before: int, after: int) -> torch.Tensor:
    """A view of ``index`` with dimensions of size 1 before and after its own. Their strides count where ``index``
    orders dimensions. Fake views have other strides there, so a real view says them unless sizes are symbolic."""
    sizes = [1] * before + [*index.shape] + [1] * after
    if any(isinstance(number, torch.SymInt) for number in (*sizes, *index.stride())):
        return index.reshape(sizes)
    with no_dispatch():
        strides = torch.empty_strided(index.shape, index.stride(), device="meta").reshape(sizes).stride()
    return index.as_strided(sizes, strides)
