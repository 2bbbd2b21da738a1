# SPDX-License-Identifier: Apache-2.0
"""Converters of pooling and of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters import part_functions
from npugraph.ge.converters.computations import computed_by
from npugraph.ge.converters.images import along
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import images, known, shape_of, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(self: Tensor, output_size: Sequence[int], *, meta_outputs: Any) -> Tensor:
    result = ge.AdaptiveAvgPool2d(self, output_size=along(2, "output_size", output_size))
    images(result)
    return result


@register_fx_node_ge_converter(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(grad_output: Tensor, self: Tensor, *, meta_outputs: Any) -> Tensor:
    result = ge.AdaptiveAvgPool2dGrad(grad_output, orig_input_shape=known("self", shape_of(self)))
    images(result)
    operator = aten._adaptive_avg_pool2d_backward.default
    return computed_by(result, part_functions.on_like, operator, grad_output, self, calls=[operator])


@register_fx_node_ge_converter(aten.avg_pool2d.default)
def avg_pool2d(
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    meta_outputs: Any,
) -> Tensor:
    how = _averages(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    result = ge.AvgPoolV2(with_image(self), **how)
    images(result)
    return without_image(result, self)


@register_fx_node_ge_converter(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    *,
    meta_outputs: Any,
) -> Tensor:
    grad, x = with_image(grad_output), with_image(self)
    how = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    result = ge.AvgPoolV2Grad(shape_of(x), grad, **_averages(*how))
    images(result, inputs=(1,))
    operator = aten.avg_pool2d_backward.default
    computed_by(result, part_functions.on_like, operator, grad, x, *how, calls=[operator])
    return without_image(result, self)


def _averages(
    kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None
) -> dict[str, Any]:
    window, (top, left) = along(2, "kernel_size", kernel_size), along(2, "padding", padding)
    return {
        "ksize": [1, 1, *window],
        "strides": [1, 1, *(along(2, "stride", stride) if stride else window)],
        "padding_mode": "CALCULATED",
        "pads": [top, top, left, left],
        "data_format": "NCHW",
        "ceil_mode": ceil_mode,
        "exclusive": not count_include_pad,
        "divisor_override": known("divisor_override", divisor_override) or 0,
    }


@register_fx_node_ge_converter(aten.max_pool2d_with_indices.default)
def max_pool2d_with_indices(
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    meta_outputs: Any,
) -> list[Tensor]:
    how = _windows(2, kernel_size, stride, padding, dilation, ceil_mode)
    results = ge.MaxPoolWithArgmaxV3(with_image(self), **how, **_NUMBERS_2D)
    images(results[0], outputs=(0, 1))
    return [without_image(result, self) for result in results]


@register_fx_node_ge_converter(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
    *,
    meta_outputs: Any,
) -> Tensor:
    operands = [with_image(tensor) for tensor in (self, grad_output, indices)]
    how = _windows(2, kernel_size, stride, padding, dilation, ceil_mode)
    result = ge.MaxPoolGradWithArgmaxV3(*operands, **how, **_NUMBERS_2D)
    images(result, inputs=(0, 1, 2))
    computed_by(result, part_functions.max_pool_gradient, *operands)
    return without_image(result, self)


@register_fx_node_ge_converter(aten.max_pool3d_with_indices.default)
def max_pool3d_with_indices(
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    meta_outputs: Any,
) -> list[Tensor]:
    x = with_image(self, dims=3)
    how = _windows(3, kernel_size, stride, padding, dilation, ceil_mode)
    results = ge.MaxPool3DWithArgmaxV2(x, **how, dtype=int(DataType.DT_INT64), data_format="NCDHW")
    images(results[0], outputs=(0, 1), data_format="NCDHW")
    computed_by(results, aten.max_pool3d_with_indices.default, x, *how.values())
    return [without_image(result, self, dims=3) for result in results]


_NUMBERS_2D = {"dtype": int(DataType.DT_INT64), "data_format": "NCHW"}


def _windows(dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> dict[str, Any]:
    window = along(dims, "kernel_size", kernel_size)
    return {
        "ksize": window,
        "strides": along(dims, "stride", stride) if stride else window,
        "pads": along(dims, "padding", padding),
        "dilation": along(dims, "dilation", dilation),
        "ceil_mode": ceil_mode,
    }


def with_image(x: Tensor, dims: int = 2) -> Tensor:
    """``x`` as a batch of images of ``dims`` dimensions."""
    if x.rank != dims + 1:
        return x
    return typed(ge.Unsqueeze(x, axes=[0]), x.dtype, [1, *(x.symsize or ())])


def without_image(result: Tensor, of: Tensor, dims: int = 2) -> Tensor:
    return ge.Squeeze(result, axis=[0]) if of.rank == dims + 1 else result
