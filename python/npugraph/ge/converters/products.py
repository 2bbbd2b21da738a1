# SPDX-License-Identifier: Apache-2.0
"""Converters of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import add, register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, exactly, images, integers, known, size_at, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.addmm.default)
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, meta_outputs: Any) -> Tensor:
    beta, alpha = known("beta", beta), known("alpha", alpha)
    if beta == 1 and alpha == 1:
        return ge.MatMulV2(mat1, mat2, self)
    product = typed(ge.MatMulV2(mat1, mat2), meta_outputs.dtype, meta_outputs.size)
    return _scaled(self, product, beta, alpha, meta_outputs)


@register_fx_node_ge_converter(aten.baddbmm.default)
def baddbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, meta_outputs: Any
) -> Tensor:
    product = typed(ge.BatchMatMul(batch1, batch2), meta_outputs.dtype, meta_outputs.size)
    return _scaled(self, product, known("beta", beta), known("alpha", alpha), meta_outputs)


def _scaled(x: Tensor, product: Tensor, beta: Any, alpha: Any, spec: Any) -> Tensor:
    """beta * x + alpha * product; with beta 0, ``x`` may be anything."""
    if beta == 0:
        return product if alpha == 1 else exactly(ge.Mul, spec.dtype, product, alpha)
    summand = x if beta == 1 else typed(exactly(ge.Mul, spec.dtype, x, beta), spec.dtype, x.symsize or ())
    if alpha == 1:
        return ge.Add(cast(summand, spec.dtype), product)
    return exactly(ge.AxpyV2, spec.dtype, summand, product, alpha)


@register_fx_node_ge_converter(aten.matmul.default)
def matmul(self: Tensor, other: Tensor, *, meta_outputs: Any) -> Tensor:
    if self.rank < 2 or other.rank < 2:
        raise NotImplementedError("an operand is a vector")
    return ge.MatMul(self, other) if self.rank == other.rank == 2 else ge.BatchMatMul(self, other)


def grouped_mm(
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Any = None,
    out_dtype: Any = None,
    *,
    meta_outputs: Any,
) -> Tensor:
    """Rows of one tensor in groups, each of which has a matrix. ``offs`` has the ends of the groups."""
    if offs is None or (self.rank, mat2.rank) != (2, 3) or bias is not None or meta_outputs.dtype != self.dtype:
        raise NotImplementedError("only groups of rows are converted, without bias and in the type of the rows")
    ends = cast(offs, DataType.DT_INT64)
    (result,) = ge.GroupedMatmul([self], [mat2], [], [], [], [], [], ends, split_item=3, group_type=0, size_of_y=1)
    return result


for _target in ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"):
    add(_target, grouped_mm)


@register_fx_node_ge_converter(aten.convolution.default)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *,
    meta_outputs: Any,
) -> Tensor:
    dims = weight.rank - 2
    if dims not in (1, 2) or input.rank != weight.rank:
        raise NotImplementedError(f"its images have {dims} dimensions")
    pad = _height_and_width(known("padding", padding), dims, 0)
    windows = {
        "strides": [1, 1, *_height_and_width(known("stride", stride), dims, 1)],
        "pads": [pad[0], pad[0], pad[1], pad[1]],
        "dilations": [1, 1, *_height_and_width(known("dilation", dilation), dims, 1)],
        "groups": known("groups", groups),
        "data_format": "NCHW",
    }
    more = _height_and_width(known("output_padding", output_padding), dims, 0)
    sizes = _transposed_sizes(input, weight, windows, more, dims) if transposed else []
    if dims == 1:  # images of height 1
        input, weight = ge.Unsqueeze(input, axes=[2]), ge.Unsqueeze(weight, axes=[2])
    if transposed:
        result = ge.Conv2DTranspose(integers(sizes), input, weight, bias, **windows, output_padding=[0, 0, *more])
        images(result, inputs=(1, 2))
    else:
        result = ge.Conv2D(input, weight, bias, **windows)
        images(result, inputs=(0, 1))
    return ge.Squeeze(result, axis=[2]) if dims == 1 else result


def _transposed_sizes(x: Tensor, weight: Tensor, windows: dict[str, Any], more: Sequence[int], dims: int) -> list[Any]:
    """Sizes of the result of a transposed convolution, whose images have height and width."""
    sizes = [size_at(x, 0), _sized(size_at(weight, 1), windows["groups"], 0), *([1] if dims == 1 else [])]
    for dim in range(2 - dims, 2):
        step, gap = windows["strides"][2 + dim], windows["dilations"][2 + dim]
        kernel = size_at(weight, dim + dims)
        if not isinstance(kernel, int):
            raise NotImplementedError("the size of its kernel is known only when the graph runs")
        around = gap * (kernel - 1) + 1 - step - 2 * windows["pads"][2 * dim] + more[dim]
        sizes.append(_sized(size_at(x, dim + dims), step, around))
    return sizes


def _sized(size: int | Tensor, factor: int, more: int) -> int | Tensor:
    """size * factor + more"""
    if isinstance(size, int):
        return size * factor + more
    product = typed(ge.Mul(size, ge.Const(factor)), DataType.DT_INT64, ())
    return typed(ge.Add(product, ge.Const(more)), DataType.DT_INT64, ())


def _height_and_width(numbers: Sequence[int], dims: int, fill: int) -> list[int]:
    """One number stands for all dimensions; ``fill`` is for the height of images that have none."""
    every = list(numbers) * dims if len(numbers) == 1 else list(numbers)
    return [fill, *every] if dims == 1 else every
