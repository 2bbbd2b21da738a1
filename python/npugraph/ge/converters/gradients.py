# SPDX-License-Identifier: Apache-2.0
"""Converters of gradients that are no row of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, dimension, integers, known, operand, parts_of, shape_of, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.threshold_backward.default)
def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Any, *, meta_outputs: Any) -> Tensor:
    limit = known("threshold", threshold)
    grad, x = cast(grad_output, meta_outputs.dtype), cast(self, meta_outputs.dtype)
    return ge.ReluGrad(grad, x) if limit == 0 else ge.ThresholdGradV2D(grad, x, threshold=float(limit))


@register_fx_node_ge_converter(aten.silu_backward.default)
def silu_backward(grad_output: Tensor, self: Tensor, *, meta_outputs: Any) -> Tensor:
    return ge.SwishGrad(grad_output, self, ge.Swish(self))


@register_fx_node_ge_converter(aten._softmax_backward_data.default)
def softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any, *, meta_outputs: Any) -> Tensor:
    grad = typed(ge.SoftmaxGrad(output, grad_output, axes=[dim]), output.dtype, meta_outputs.size)
    return cast(grad, meta_outputs.dtype)


@register_fx_node_ge_converter(aten._log_softmax_backward_data.default)
def log_softmax_backward(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any, *, meta_outputs: Any
) -> Tensor:
    grad = typed(ge.LogSoftmaxGrad(grad_output, output, axis=[dim]), output.dtype, meta_outputs.size)
    return cast(grad, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.select_backward.default)
def select_backward(grad_output: Tensor, input_sizes: Any, dim: int, index: Any, *, meta_outputs: Any) -> Tensor:
    axis = dimension(dim, len(meta_outputs.size))
    updates = typed(ge.ExpandDims(grad_output, axis), grad_output.dtype, _with_size(meta_outputs.size, axis, 1))
    place = index + meta_outputs.size[axis] if isinstance(index, int) and index < 0 else index
    return _placed(updates, input_sizes, axis, ge.Const([place]) if isinstance(place, int) else None)


@register_fx_node_ge_converter(aten.slice_backward.default)
def slice_backward(
    grad_output: Tensor, input_sizes: Any, dim: int, start: Any, end: Any, step: Any, *, meta_outputs: Any
) -> Tensor:
    axis = dimension(dim, len(meta_outputs.size))
    size = meta_outputs.size[axis]
    if not all(isinstance(number, int) for number in (start, end, step, size)):
        raise NotImplementedError("its places are known only when the graph runs")
    places = range(size)[start:end:step]
    return _placed(grad_output, input_sizes, axis, ge.Range(places.start, places.stop, places.step))


def _with_size(sizes: Sequence[Any], axis: int, size: Any) -> list[Any]:
    return [size if dim == axis else known for dim, known in enumerate(sizes)]


def _placed(updates: Tensor, sizes: Any, axis: int, places: Tensor | None) -> Tensor:
    """Zeros of ``sizes`` with ``updates`` at the places along ``axis``, which are a list."""
    if places is None:
        raise NotImplementedError("its place is known only when the graph runs")
    rows = typed(places, DataType.DT_INT64, [(updates.symsize or ())[axis]])
    other = [dim for dim in range(updates.rank) if dim != axis]
    index = ge.Unsqueeze(rows, axes=other) if other else rows
    zeros = typed(ge.Fill(integers(parts_of(sizes)), operand(0, updates.dtype)), updates.dtype, parts_of(sizes))
    return ge.ScatterElements(zeros, ge.BroadcastTo(index, shape_of(updates)), updates, axis=axis)
