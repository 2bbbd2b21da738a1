# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that make tensors of numbers, and of conversions and copies."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge import data_types
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, integers, is_size, operand, parts_of, shape_of, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.arange.default)
def arange(end: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _range(0, end, 1, meta_outputs)


@register_fx_node_ge_converter(aten.arange.start)
@register_fx_node_ge_converter(aten.arange.start_step)
def arange_start(start: Any, end: Any, step: Any = 1, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _range(start, end, step, meta_outputs)


def _range(start: Any, end: Any, step: Any, spec: Any) -> Tensor:
    """Range needs numbers, and a size that only a run knows is a number as long as it is an integer."""
    bounds = (start, end, step)
    if not all(map(is_size, bounds)):
        raise NotImplementedError("a bound follows from the elements of a tensor")
    is_late = any(isinstance(bound, Tensor) for bound in bounds)
    if not is_late or not data_types.to_torch(spec.dtype).is_floating_point:
        return ge.Range(*(operand(bound, spec.dtype) for bound in bounds))
    if any(isinstance(bound, float) for bound in bounds):
        raise NotImplementedError("one bound is a float, and another one is known only when the graph runs")
    numbers = ge.Range(*(operand(bound, DataType.DT_INT64) for bound in bounds))
    return cast(typed(numbers, DataType.DT_INT64, spec.size), spec.dtype)


@register_fx_node_ge_converter(aten.linspace.default)
def linspace(start: Any, end: Any, steps: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    dtype = meta_outputs.dtype if meta_outputs.dtype == DataType.DT_DOUBLE else DataType.DT_FLOAT
    if not data_types.to_torch(meta_outputs.dtype).is_floating_point:
        raise NotImplementedError("its result has integers")
    numbers = typed(ge.LinSpace(operand(start, dtype), operand(end, dtype), steps), dtype, [steps])
    return cast(numbers, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.eye.default)
def eye(n: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _eye(n, n, meta_outputs)


@register_fx_node_ge_converter(aten.eye.m)
def eye_of_columns(n: Any, m: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _eye(n, m, meta_outputs)


def _eye(rows: Any, columns: Any, spec: Any) -> Tensor:
    return cast(on_diagonal(rows, columns), spec.dtype)


def on_diagonal(rows: Any, columns: Any) -> Tensor:
    """Whether an element of a matrix is on its diagonal. Ascend's Eye takes no size that only a run knows."""
    places = [ge.Range(*(operand(bound, DataType.DT_INT64) for bound in (0, size, 1))) for size in (rows, columns)]
    return ge.Equal(ge.Unsqueeze(places[0], axes=[1]), ge.Unsqueeze(places[1], axes=[0]))


@register_fx_node_ge_converter(aten.scalar_tensor.default)
def scalar_tensor(s: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return ge.Cast(s, dst_type=meta_outputs.dtype) if isinstance(s, Tensor) else ge.Const(s, dtype=meta_outputs.dtype)


@register_fx_node_ge_converter(aten.full_like.default)
def full_like(self: Tensor, fill_value: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return ge.Fill(shape_of(self), operand(fill_value, meta_outputs.dtype))


@register_fx_node_ge_converter(aten.empty_like.default)
def empty_like(self: Tensor, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return ge.Fill(shape_of(self), operand(0, meta_outputs.dtype))


@register_fx_node_ge_converter(aten.new_empty_strided.default)
def new_empty_strided(self: Tensor, size: Any, stride: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    """Rows in the order of the dimensions in memory."""
    if meta_outputs.order is None:
        raise NotImplementedError("its result is no dense tensor")
    sizes, order = parts_of(size), list(meta_outputs.order) or list(range(len(meta_outputs.size)))
    rows = ge.Fill(integers([sizes[dim] for dim in order]), operand(0, meta_outputs.dtype))
    if order == sorted(order):
        return rows
    typed(rows, meta_outputs.dtype, [meta_outputs.size[dim] for dim in order])
    return ge.Transpose(rows, [order.index(dim) for dim in range(len(order))])


@register_fx_node_ge_converter(aten.fill.Scalar)
@register_fx_node_ge_converter(aten.fill.Tensor)
def fill(self: Tensor, value: Any, *, meta_outputs: Any) -> Tensor:
    return ge.Fill(shape_of(self), operand(value, meta_outputs.dtype))


@register_fx_node_ge_converter(aten._to_copy.default)
def to_copy(self: Tensor, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return ge.Clone(self) if self.dtype == meta_outputs.dtype else ge.Cast(self, dst_type=meta_outputs.dtype)


@register_fx_node_ge_converter(aten.copy.default)
def copy(self: Tensor, src: Any, non_blocking: bool = False, *, meta_outputs: Any) -> Tensor:
    return ge.BroadcastTo(operand(src, meta_outputs.dtype), shape_of(self))


@register_fx_node_ge_converter(aten.copy_.default)
def copy_(self: Tensor, src: Any, non_blocking: bool = False, *, meta_outputs: Any) -> Tensor:
    """The only operator that writes: AOTAutograd puts it at the end, for each input that the program writes."""
    value = operand(src, meta_outputs.dtype)
    if value.symsize != self.symsize:
        value = ge.BroadcastTo(value, shape_of(self))
    return ge.Assign(self, value)
