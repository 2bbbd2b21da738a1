# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that read or write elements at places that other tensors name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.computations import computed_by
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, dimension, integers, known, operand, place_in, shape_of, size_at, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten

_MASKS = (DataType.DT_BOOL, DataType.DT_UINT8)


@register_fx_node_ge_converter(aten.select.int)
def select(self: Tensor, dim: int, index: Any, *, meta_outputs: Any) -> Tensor:
    axis = dimension(dim, self.rank)
    return ge.GatherV2(self, place_in("index", index, self, axis), [axis], negative_index_support=True)


@register_fx_node_ge_converter(aten.index_select.default)
def index_select(self: Tensor, dim: int, index: Tensor, *, meta_outputs: Any) -> Tensor:
    if self.rank == 0:
        return ge.Identity(self)
    places = ge.Unsqueeze(index, axes=[0]) if index.rank == 0 else index
    return ge.GatherV2(self, places, [dimension(dim, self.rank)])


@register_fx_node_ge_converter(aten.index.Tensor)
@register_fx_node_ge_converter(aten._unsafe_index.Tensor)
def index(self: Tensor, indices: Sequence[Tensor | None], *, meta_outputs: Any) -> Tensor:
    return ge.IndexByTensor(self, _places(indices), indices_mask=_mask(indices))


def _mask(indices: Sequence[Tensor | None]) -> list[int]:
    """1 for each dimension that has an index, 0 for the others."""
    return [int(place is not None) for place in indices]


def _places(indices: Sequence[Tensor | None]) -> list[Tensor]:
    given = [place for place in indices if place is not None]
    if any(place.dtype in _MASKS for place in given):
        raise NotImplementedError("an index is a mask, so the sizes depend on its elements")
    return [cast(place, DataType.DT_INT64) for place in given]


@register_fx_node_ge_converter(aten.index_copy.default)
def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor, *, meta_outputs: Any) -> Tensor:
    if self.rank == 0:
        return ge.Identity(source)
    axis = dimension(dim, self.rank)
    places = typed(ge.Unsqueeze(index, axes=[0]), index.dtype, [1]) if index.rank == 0 else index
    return _written(self, [0] * axis + [1], [cast(places, DataType.DT_INT64)], source, False)


@register_fx_node_ge_converter(aten.index_add.default)
def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1, meta_outputs: Any) -> Tensor:
    if self.rank == 0:
        raise NotImplementedError("its input is a scalar")
    places = typed(ge.Unsqueeze(index, axes=[0]), index.dtype, [1]) if index.rank == 0 else index
    axis = dimension(dim, self.rank)
    updates = source
    if source.rank < self.rank:
        updates = typed(ge.Unsqueeze(source, axes=[axis]), source.dtype, _with_row(source.symsize or (), axis))
    factor = None if known("alpha", alpha) == 1 else operand(alpha, self.dtype)
    return ge.InplaceIndexAdd(ge.Clone(self), places, updates, factor, axis=axis)


def _with_row(sizes: Sequence[Any], axis: int) -> list[Any]:
    return [*sizes[:axis], 1, *sizes[axis:]]


@register_fx_node_ge_converter(aten.index_put.default)
def index_put(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, *, meta_outputs: Any
) -> Tensor:
    value = cast(values, self.dtype)
    if len(indices) == 1 and values.rank == 0 and not accumulate:
        only = indices[0]
        if only is not None and only.dtype in _MASKS:
            return _filled_where(self, only, value)
    mask, places = _mask(indices), _places(indices)
    return _written(self, mask, places, _broadcast(self, mask, places, value), accumulate)


@register_fx_node_ge_converter(aten.scatter.src)
def scatter(self: Tensor, dim: int, index: Tensor, src: Tensor, *, meta_outputs: Any) -> Tensor:
    return _scattered(self, dim, index, _first_part(src, index), "none")


@register_fx_node_ge_converter(aten.scatter.value)
def scatter_value(self: Tensor, dim: int, index: Tensor, value: Any, *, meta_outputs: Any) -> Tensor:
    filled = typed(ge.Fill(shape_of(index), operand(value, self.dtype)), self.dtype, index.symsize or ())
    return _scattered(self, dim, index, filled, "none")


@register_fx_node_ge_converter(aten.scatter_add.default)
def scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor, *, meta_outputs: Any) -> Tensor:
    return _scattered(self, dim, index, _first_part(src, index), "add")


def _scattered(x: Tensor, dim: int, index: Tensor, updates: Tensor, reduction: str) -> Tensor:
    if x.rank == 0:
        raise NotImplementedError("its input is a scalar")
    return ge.ScatterElements(x, index, updates, axis=dimension(dim, x.rank), reduction=reduction)


def _first_part(src: Tensor, index: Tensor) -> Tensor:
    """The elements of ``src`` that torch writes: those at places of the index, which may be smaller."""
    if src.symsize == index.symsize:
        return src
    sizes = integers([size_at(index, dim) for dim in range(index.rank)])
    return typed(ge.Slice(src, [0] * index.rank, sizes), src.dtype, index.symsize or ())


def _filled_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """A mask stands for the first dimensions of ``x``."""
    condition = cast(mask, DataType.DT_BOOL)
    if mask.rank < x.rank:
        condition = ge.Unsqueeze(condition, axes=list(range(mask.rank, x.rank)))
    return ge.SelectV2(condition, value, x)


def _broadcast(x: Tensor, mask: Sequence[int], places: Sequence[Tensor], value: Tensor) -> Tensor:
    """``value`` with the sizes of what one index of one dimension selects. Where there are more, it stays as it is."""
    if len(places) != 1 or places[0].rank != 1:
        return value
    axis = list(mask).index(1)
    sizes = [size_at(places[0], 0) if dim == axis else size_at(x, dim) for dim in range(x.rank)]
    return value if value.symsize == sizes else ge.BroadcastTo(value, integers(sizes))


def _written(x: Tensor, mask: list[int], places: Sequence[Tensor], value: Tensor, accumulate: bool) -> Tensor:
    """A copy of ``x`` with ``value`` at the places."""
    every = mask + [0] * (x.rank - len(mask))
    return ge.IndexPutV2(ge.Clone(x), value, every, [0] * x.rank, list(places), accumulate=accumulate)


@register_fx_node_ge_converter(aten._embedding_bag.default)
@register_fx_node_ge_converter(aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
    *,
    meta_outputs: Any,
) -> list[Tensor]:
    results = ge.EmbeddingBag(
        weight,
        indices,
        offsets,
        per_sample_weights,
        mode=("sum", "mean", "max")[known("mode", mode)],
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
        include_last_offset=include_last_offset,
        padding_idx=known("padding_idx", padding_idx),
    )
    how = (scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)
    return computed_by(list(results), aten._embedding_bag.default, weight, indices, offsets, *how)
