# SPDX-License-Identifier: Apache-2.0
"""Converters of gradients that are no row of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters import part_functions
from npugraph.ge.converters.computations import computed_by
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import (
    Late,
    as_attributes,
    cast,
    counts_from_end,
    dimension,
    images,
    integers,
    known,
    operand,
    parts_of,
    plus,
    shape_of,
    size_at,
    times,
    typed,
)
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.threshold_backward.default)
def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Any, *, meta_outputs: Any) -> Tensor:
    limit = known("threshold", threshold)
    grad, x = cast(grad_output, meta_outputs.dtype), cast(self, meta_outputs.dtype)
    if limit == 0:
        return ge.ReluGrad(grad, x)
    return ge.ThresholdGradV2D(grad, x, **as_attributes({"threshold": float(limit)}, meta_outputs.dtype))


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
    size, step = meta_outputs.size[axis], known("step", step)
    if isinstance(size, int) and all(isinstance(number, int) for number in (start, end)):
        known_places = range(size)[start:end:step]
        places = ge.Range(known_places.start, known_places.stop, known_places.step)
        return _placed(grad_output, input_sizes, axis, places)
    begin = plus(parts_of(input_sizes)[axis], start) if counts_from_end("start", start) else start
    if not isinstance(begin, int):
        begin = typed(ge.Maximum(begin, operand(0, DataType.DT_INT64)), DataType.DT_INT64, ())
    stop = plus(begin, times(size_at(grad_output, axis), step))
    places = ge.Range(*(operand(number, DataType.DT_INT64) for number in (begin, stop, step)))
    return _placed(grad_output, input_sizes, axis, places)


@register_fx_node_ge_converter(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Any,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    gamma = ge.Fill(integers(parts_of(normalized_shape)), operand(1, input.dtype)) if weight is None else weight
    results = _asked(ge.LayerNormGradV3(grad_out, input, rstd, mean, gamma), output_mask)
    given = (grad_out, input, normalized_shape, mean, rstd, weight, bias is not None, output_mask)
    return computed_by(results, part_functions.layer_norm_gradients, *given)


def _asked(results: Sequence[Tensor], mask: Sequence[bool]) -> list[Tensor | None]:
    """Those of the results that the mask asks for, and None for the others."""
    return [result if asked else None for result, asked in zip(results, mask, strict=True)]


@register_fx_node_ge_converter(aten.native_group_norm_backward.default)
def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    output_mask: Sequence[bool],
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    gamma = ge.Fill(integers([size_at(input, 1)]), operand(1, input.dtype)) if weight is None else weight
    made = ge.GroupNormGrad(grad_out, mean, rstd, input, gamma, num_groups=known("group", group), data_format="NCHW")
    images(made[0], inputs=(0, 3))
    given = (grad_out, input, mean, rstd, weight, known("group", group), output_mask)
    return computed_by(_asked(made, output_mask), part_functions.group_norm_gradients, *given)


@register_fx_node_ge_converter(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: Any,
    output_mask: Sequence[bool],
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    """Ascend's operator has all statistics; those that a call does not have do not change its result. Training has a
    rule."""
    dtype = DataType.DT_FLOAT if weight is None else weight.dtype
    ones = Late(lambda: _of_channels(input, dtype), [(input.symsize or ())[1]])
    statistics = (running_mean, running_var, save_mean if train else None, save_invstd if train else None)
    stated = [ones if tensor is None else tensor for tensor in (weight, *statistics)]
    made = ge.BatchNormGradV3(grad_out, input, *stated, is_training=train, epsilon=known("eps", eps))
    images(made[0], inputs=(0, 1))
    results = _asked(made, output_mask)
    if train:
        return results
    given = (grad_out, input, weight, *statistics, train, known("eps", eps), output_mask)
    return computed_by(results, part_functions.function_of(aten.native_batch_norm_backward.default), *given)


def _of_channels(x: Tensor, dtype: Any) -> Tensor:
    return typed(ge.Fill(integers([size_at(x, 1)]), operand(1, dtype)), dtype, [(x.symsize or ())[1]])


@register_fx_node_ge_converter(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def flash_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: Any,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: Any = None,
    meta_outputs: Any,
) -> list[Tensor]:
    """Ascend's operator divides exponentials of scores by their sums. Logarithms of sums are largest scores whose sums
    are 1."""
    heads, width = (query.symsize or ())[1], (query.symsize or ())[3]
    if not isinstance(heads, int) or not isinstance(width, int):
        raise NotImplementedError("the number or the width of heads is known only when the graph runs")
    factor = 1 / math.sqrt(width) if scale is None else known("scale", scale)
    ones = typed(ge.OnesLike(logsumexp), logsumexp.dtype, logsumexp.symsize or ())
    made = ge.FlashAttentionScoreGrad(
        *(query, key, value, grad_out),
        pse_shift=attn_mask,  # it is added to the scores
        softmax_max=logsumexp,
        softmax_sum=ones,
        attention_in=out,
        scale_value=factor,
        head_num=heads,
        input_layout="BNSD",
        next_tockens=0 if is_causal else 2**31 - 1,
    )
    given = (grad_out, query, key, value, out, logsumexp, known("dropout_p", dropout_p), is_causal, attn_mask, scale)
    operator = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    return computed_by(list(made[:3]), part_functions.attention_gradients, *given, calls=[operator])


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
