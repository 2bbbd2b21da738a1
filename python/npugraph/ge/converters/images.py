# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that surround images with elements, or give them another size."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters import part_functions
from npugraph.ge.converters.computations import computed_by
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import images, integers, known, operand, parts_of
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.reflection_pad1d.default)
@register_fx_node_ge_converter(aten.reflection_pad2d.default)
@register_fx_node_ge_converter(aten.reflection_pad3d.default)
def reflection_pad(self: Tensor, padding: Any, *, meta_outputs: Any) -> Tensor:
    return ge.MirrorPad(self, pairs_from_first(self, padding), mode="REFLECT")


@register_fx_node_ge_converter(aten.replication_pad1d.default)
@register_fx_node_ge_converter(aten.replication_pad2d.default)
@register_fx_node_ge_converter(aten.replication_pad3d.default)
def replication_pad(self: Tensor, padding: Any, *, meta_outputs: Any) -> Tensor:
    return ge.PadV3(self, pairs_from_first(self, padding), mode="edge")


def pairs_from_first(x: Tensor, pad: Any) -> Any:
    """Torch lists pairs of numbers of elements before and behind from the last dimension on, Ascend from the first."""
    parts = parts_of(pad)
    pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
    pairs += [[0, 0]] * (x.rank - len(pairs))
    return integers([part for pair in reversed(pairs) for part in pair])


@register_fx_node_ge_converter(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    self: Tensor, output_size: Any, scales_h: Any = None, scales_w: Any = None, *, meta_outputs: Any
) -> Tensor:
    """Ascend has no factors: they have to follow from the sizes."""
    for factor, size, wanted in zip((scales_h, scales_w), (self.symsize or ())[2:], meta_outputs.size[2:], strict=True):
        if factor is None:
            continue
        if not all(isinstance(number, (int, float)) for number in (factor, size, wanted)) or factor * size != wanted:
            raise NotImplementedError(f"its factor {factor} is not the quotient of its sizes")
    result = ge.ResizeNearestNeighborV2(self, operand(integers(parts_of(output_size)), DataType.DT_INT32))
    images(result)
    return result


@register_fx_node_ge_converter(aten.reflection_pad2d_backward.default)
def reflection_pad2d_backward(grad_output: Tensor, self: Tensor, padding: Any, *, meta_outputs: Any) -> Tensor:
    return _pad_backward(aten.reflection_pad2d_backward.default, "reflect", grad_output, self, padding)


@register_fx_node_ge_converter(aten.replication_pad1d_backward.default)
def replication_pad1d_backward(grad_output: Tensor, self: Tensor, padding: Any, *, meta_outputs: Any) -> Tensor:
    return _pad_backward(aten.replication_pad1d_backward.default, "edge", grad_output, self, padding)


def _pad_backward(operator: Any, mode: str, grad: Tensor, x: Tensor, padding: Any) -> Tensor:
    pads = known("padding", padding)
    result = ge.PadV3Grad(grad, pairs_from_first(x, pads), mode=mode)
    return computed_by(result, part_functions.padding_gradient, operator, grad, pads, calls=[operator])


@register_fx_node_ge_converter(aten.upsample_nearest2d_backward.default)
def upsample_nearest2d_backward(
    grad_output: Tensor,
    output_size: Any,
    input_size: Any,
    scales_h: Any = None,
    scales_w: Any = None,
    *,
    meta_outputs: Any,
) -> Tensor:
    sizes = parts_of(input_size)
    result = ge.ResizeNearestNeighborV2Grad(grad_output, integers(sizes[2:]))
    images(result)
    operator = aten.upsample_nearest2d_backward.default
    scales = (known("scales_h", scales_h), known("scales_w", scales_w))
    return computed_by(result, operator, grad_output, parts_of(output_size), sizes, *scales)


@register_fx_node_ge_converter(aten.im2col.default)
def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any, *, meta_outputs: Any) -> Tensor:
    kernel, dilations, (above, left), strides = _windows(kernel_size, dilation, padding, stride)
    pads = [above, above, left, left]
    result = ge.Im2col(self, ksizes=kernel, strides=strides, dilations=dilations, pads=pads)
    how = (kernel, dilations, [above, left], strides)
    return computed_by(result, aten.im2col.default, self, *how)


@register_fx_node_ge_converter(aten.col2im.default)
def col2im(
    self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any, *, meta_outputs: Any
) -> Tensor:
    how = _windows(kernel_size, dilation, padding, stride)
    sizes = parts_of(output_size)
    names = ("kernel_size", "dilation", "padding", "stride")
    result = ge.Col2im(self, operand(integers(sizes), DataType.DT_INT32), **dict(zip(names, how, strict=True)))
    return computed_by(result, aten.col2im.default, self, sizes, *how)


def _windows(*numbers: Any) -> list[list[int]]:
    names = ("kernel_size", "dilation", "padding", "stride")
    return [along(2, name, each) for name, each in zip(names, numbers, strict=True)]


@register_fx_node_ge_converter(aten.pixel_shuffle.default)
def pixel_shuffle(self: Tensor, upscale_factor: int, *, meta_outputs: Any) -> Tensor:
    if self.rank != 4:
        raise NotImplementedError("its tensor has other than 4 dimensions")
    factor = known("upscale_factor", upscale_factor)
    result = ge.DepthToSpace(self, block_size=factor, mode="CRD", data_format="NCHW")
    return computed_by(result, part_functions.function_of(aten.pixel_shuffle.default), self, factor)


_INTERPOLATIONS, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _sampling(interpolation_mode: int, padding_mode: int, align_corners: bool) -> dict[str, Any]:
    return {
        "interpolation_mode": _INTERPOLATIONS[known("interpolation_mode", interpolation_mode)],
        "padding_mode": _PADDINGS[known("padding_mode", padding_mode)],
        "align_corners": align_corners,
    }


@register_fx_node_ge_converter(aten.grid_sampler_2d.default)
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool, *, meta_outputs: Any
) -> Tensor:
    how = (interpolation_mode, padding_mode, align_corners)
    result = ge.GridSampler2D(input, grid, **_sampling(*how))
    return computed_by(result, part_functions.grid_sample, input, grid, *how, calls=[aten.grid_sampler_2d.default])


@register_fx_node_ge_converter(aten.grid_sampler_3d.default)
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool, *, meta_outputs: Any
) -> Tensor:
    how = (interpolation_mode, padding_mode, align_corners)
    result = ge.GridSampler3D(input, grid, **_sampling(*how))
    return computed_by(result, aten.grid_sampler_3d.default, input, grid, *how)


@register_fx_node_ge_converter(aten.grid_sampler_2d_backward.default)
def grid_sampler_2d_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Any,
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    how = (interpolation_mode, padding_mode, align_corners)
    made = ge.GridSampler2DGrad(grad_output, input, grid, **_sampling(*how))
    results = [result if asked else None for result, asked in zip(made, output_mask, strict=True)]
    operator = aten.grid_sampler_2d_backward.default
    return computed_by(results, operator, grad_output, input, grid, *how, list(output_mask))


def along(dims: int, what: str, numbers: Any) -> list[int]:
    """A number for each of ``dims`` dimensions, for all of which one may stand."""
    every = known(what, numbers)
    every = [every] if isinstance(every, int) else list(every)
    return every * dims if len(every) == 1 else every
