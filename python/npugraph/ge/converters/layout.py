# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that move elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.images import pairs_from_first
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import (
    LAST,
    cast,
    dimension,
    integers,
    known,
    operand,
    parts_of,
    place_in,
    typed,
)
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.view.default)
@register_fx_node_ge_converter(aten._unsafe_view.default)
def view(self: Tensor, size: Any, *, meta_outputs: Any) -> Tensor:
    return _reshaped(self, size, meta_outputs)


@register_fx_node_ge_converter(aten.reshape.default)
def reshape(self: Tensor, shape: Any, *, meta_outputs: Any) -> Tensor:
    return _reshaped(self, shape, meta_outputs)


def _reshaped(x: Tensor, size: Any, spec: Any) -> Tensor:
    """-1 stands for a size that follows from the others. If it is known, it is written down."""
    pairs = zip(parts_of(size), spec.size, strict=True)
    return ge.Reshape(x, integers([real if _is(part, -1) and isinstance(real, int) else part for part, real in pairs]))


def _is(number: Any, expected: int) -> bool:
    """Whether a size or a place is known to be this number. Adds no guards."""
    return isinstance(number, int) and number == expected


@register_fx_node_ge_converter(aten.permute.default)
def permute(self: Tensor, dims: Sequence[int], *, meta_outputs: Any) -> Tensor:
    return _transposed(self, [dimension(dim, self.rank) for dim in dims])


@register_fx_node_ge_converter(aten.transpose.int)
def transpose(self: Tensor, dim0: int, dim1: int, *, meta_outputs: Any) -> Tensor:
    perm = list(range(self.rank))
    if self.rank:
        a, b = dimension(dim0, self.rank), dimension(dim1, self.rank)
        perm[a], perm[b] = perm[b], perm[a]
    return _transposed(self, perm)


@register_fx_node_ge_converter(aten.t.default)
def t(self: Tensor, *, meta_outputs: Any) -> Tensor:
    return _transposed(self, list(reversed(range(self.rank))))


def _transposed(x: Tensor, perm: list[int]) -> Tensor:
    return ge.Identity(x) if perm == sorted(perm) else ge.Transpose(x, perm)


@register_fx_node_ge_converter(aten.squeeze.default)
def squeeze(self: Tensor, *, meta_outputs: Any) -> Tensor:
    return _without(self, range(self.rank))


@register_fx_node_ge_converter(aten.squeeze.dim)
def squeeze_dim(self: Tensor, dim: int, *, meta_outputs: Any) -> Tensor:
    return _without(self, [dim])


@register_fx_node_ge_converter(aten.squeeze.dims)
def squeeze_dims(self: Tensor, dim: Sequence[int], *, meta_outputs: Any) -> Tensor:
    return _without(self, dim)


def _without(x: Tensor, dims: Sequence[int]) -> Tensor:
    """``x`` without those of the dimensions that have the size 1."""
    sizes = x.symsize or ()
    axes = [axis for axis in (dimension(dim, x.rank) for dim in dims) if axis < x.rank and _is(sizes[axis], 1)]
    return ge.Squeeze(x, axis=axes) if axes else ge.Identity(x)


@register_fx_node_ge_converter(aten.as_strided.default)
def as_strided(self: Tensor, size: Any, stride: Any, storage_offset: Any = None, *, meta_outputs: Any) -> Tensor:
    """Torch counts places in memory, Ascend those of a dense row-major tensor. The engine checks them when it compiles,
    so they have to be known then."""
    if self.order is None:
        raise NotImplementedError("its input is no dense tensor at the start of its memory")
    sizes, strides = known("size", size), known("stride", stride)
    offset = 0 if storage_offset is None else known("storage_offset", storage_offset)
    if not all(isinstance(part, int) for part in self.symsize or ()):
        raise NotImplementedError("the sizes of its input are known only when the graph runs")
    elements = math.prod(self.symsize or ())
    last = offset + sum((part - 1) * step for part, step in zip(sizes, strides, strict=True))
    if last >= elements and 0 not in sizes:
        raise NotImplementedError(f"it reads beyond the {elements} elements of its input")
    rows = ge.Transpose(self, list(self.order)) if self.order else self
    return ge.AsStrided(rows, sizes, strides, [offset])


@register_fx_node_ge_converter(aten.cat.default)
def cat(tensors: Sequence[Tensor], dim: int = 0, *, meta_outputs: Any) -> Tensor:
    """Torch leaves out tensors of the size [0], whatever the others have."""
    rank = len(meta_outputs.size)
    parts = [tensor for tensor in tensors if tensor.rank == rank] or list(tensors)
    operands = [cast(tensor, meta_outputs.dtype) for tensor in parts]
    return ge.ConcatV2(operands, dimension(dim, rank), N=len(operands))


@register_fx_node_ge_converter(aten.stack.default)
def stack(tensors: Sequence[Tensor], dim: int = 0, *, meta_outputs: Any) -> Tensor:
    operands = [cast(tensor, meta_outputs.dtype) for tensor in tensors]
    return ge.Pack(operands, axis=dimension(dim, len(meta_outputs.size)), N=len(operands))


@register_fx_node_ge_converter(aten.unbind.int)
def unbind(self: Tensor, dim: int = 0, *, meta_outputs: Any) -> list[Tensor]:
    number = len(meta_outputs)
    return ge.Unpack(self, num=number, axis=dimension(dim, self.rank), size_of_y=number)


@register_fx_node_ge_converter(aten.split.Tensor)
@register_fx_node_ge_converter(aten.unsafe_split.Tensor)
def split(self: Tensor, split_size: Any, dim: int = 0, *, meta_outputs: Any) -> list[Tensor]:
    """The last part takes what is left."""
    return _split(self, [split_size] * (len(meta_outputs) - 1) + [-1], dim, meta_outputs)


@register_fx_node_ge_converter(aten.split_with_sizes.default)
@register_fx_node_ge_converter(aten.unsafe_split_with_sizes.default)
def split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0, *, meta_outputs: Any) -> list[Tensor]:
    return _split(self, parts_of(split_sizes), dim, meta_outputs)


def _split(x: Tensor, sizes: list[Any], dim: int, specs: Sequence[Any]) -> list[Tensor]:
    axis = dimension(dim, x.rank)
    real = [spec.size[axis] for spec in specs]
    sizes = real if all(isinstance(size, int) for size in real) else sizes
    return ge.SplitV(x, integers(sizes), axis, num_split=len(sizes), size_of_y=len(sizes))


@register_fx_node_ge_converter(aten.slice.Tensor)
def slice_(
    self: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, *, meta_outputs: Any
) -> Tensor:
    return _sliced(self, dim, 0 if start is None else start, end, known("step", step))


def _sliced(x: Tensor, dim: int, start: Any, end: Any, step: int = 1) -> Tensor:
    """The places ``start``, ``start + step``, ... before ``end`` along a dimension. None is the end of the tensor, and
    so is the largest number."""
    axis = dimension(dim, x.rank)
    begin = integers([place_in("start", start, x, axis)])
    if end is None or _is(end, LAST):
        return ge.StridedSliceV2(x, begin, [LAST], [axis], [step], end_mask=1)
    return ge.StridedSliceV2(x, begin, integers([place_in("end", end, x, axis)]), [axis], [step])


@register_fx_node_ge_converter(aten.slice_scatter.default)
def slice_scatter(
    self: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, *, meta_outputs: Any
) -> Tensor:
    size = (self.symsize or ())[dimension(dim, self.rank)]
    if step != 1 or not all(isinstance(bound, (int, type(None))) for bound in (start, end, size)):
        raise NotImplementedError("its argument step is not 1, or its places are known only when the graph runs")
    return _with_part(self, src, dim, *slice(start, end).indices(size)[:2], meta_outputs.dtype)


@register_fx_node_ge_converter(aten.select_scatter.default)
def select_scatter(self: Tensor, src: Tensor, dim: int, index: Any, *, meta_outputs: Any) -> Tensor:
    axis = dimension(dim, self.rank)
    size = (self.symsize or ())[axis]
    if not isinstance(size, int) or not isinstance(index, int):
        raise NotImplementedError("its place is known only when the graph runs")
    index = index % size
    part = typed(ge.Unsqueeze(src, axes=[axis]), src.dtype, [None] * self.rank)
    return _with_part(self, part, axis, index, index + 1, meta_outputs.dtype)


def _with_part(x: Tensor, part: Tensor, dim: int, begin: int, end: int, dtype: Any) -> Tensor:
    """``x`` with ``part`` at the places from ``begin`` up to ``end`` along a dimension."""
    axis = dimension(dim, x.rank)
    size = (x.symsize or ())[axis]
    parts = [_sliced(x, axis, 0, begin)] if begin > 0 else []
    parts += [cast(part, dtype)] if end > begin else []
    parts += [_sliced(x, axis, max(begin, end), None)] if max(begin, end) < size else []
    return ge.ConcatV2(parts, axis, N=len(parts))


@register_fx_node_ge_converter(aten.roll.default)
def roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int] = (), *, meta_outputs: Any) -> Tensor:
    if not dims:
        raise NotImplementedError("its argument dims is empty")
    result = self
    for shift, dim in zip(known("shifts", shifts), dims, strict=True):
        axis = dimension(dim, self.rank)
        size = (self.symsize or ())[axis]
        if not isinstance(size, int):
            raise NotImplementedError(f"the size of dimension {axis} of its input is known only when the graph runs")
        result = _rolled(result, shift % max(size, 1), axis)
    return ge.Identity(result) if result is self else result


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    if shift == 0:
        return x
    parts = [_sliced(x, axis, -shift, None), _sliced(x, axis, 0, -shift)]
    return typed(ge.ConcatV2(parts, axis, N=2), x.dtype, x.symsize or ())


@register_fx_node_ge_converter(aten.constant_pad_nd.default)
def constant_pad_nd(self: Tensor, pad: Any, value: Any = 0, *, meta_outputs: Any) -> Tensor:
    return ge.PadV3(self, pairs_from_first(self, pad), operand(value, meta_outputs.dtype))


@register_fx_node_ge_converter(aten.as_strided_scatter.default)
def as_strided_scatter(
    self: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: Any = None, *, meta_outputs: Any
) -> Tensor:
    """Places count in the row-major copy that is written."""
    if self.order != () or not all(isinstance(part, int) for part in self.symsize or ()):
        raise NotImplementedError("its input does not lie in rows, or its sizes are known only when the graph runs")
    sizes, strides = known("size", size), known("stride", stride)
    offset = 0 if storage_offset is None else known("storage_offset", storage_offset)
    rows = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    return ge.ViewCopy(ge.TensorMove(self), sizes, strides, [offset], src, sizes, rows, [0])


@register_fx_node_ge_converter(aten.view.dtype)
def view_dtype(self: Tensor, dtype: Any, *, meta_outputs: Any) -> Tensor:
    return ge.Bitcast(self, type=meta_outputs.dtype)
