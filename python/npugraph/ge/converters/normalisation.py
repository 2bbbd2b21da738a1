# SPDX-License-Identifier: Apache-2.0
"""Converters of normalisations and of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.images import along
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import images, integers, known, operand, shape_of, size_at, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.native_layer_norm.default)
def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: Any, *, meta_outputs: Any
) -> Sequence[Tensor]:
    return ge.LayerNormV4(input, normalized_shape, weight, bias, epsilon=known("eps", eps))


@register_fx_node_ge_converter(aten._native_batch_norm_legit_no_training.default)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: Any,
    eps: Any,
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    """The other results are statistics, which nobody computes for inference."""
    scale = _full_like(running_mean, 1) if weight is None else weight
    offset = _full_like(running_mean, 0) if bias is None else bias
    result = ge.BNInfer(input, scale, offset, running_mean, running_var, epsilon=known("eps", eps))
    images(result)
    return [result, None, None]


@register_fx_node_ge_converter(aten._native_batch_norm_legit_functional.default)
def batch_norm_in_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: Any,
    eps: Any,
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    if not training:
        y, *rest = batch_norm(*(input, weight, bias, running_mean, running_var, momentum, eps), meta_outputs=None)
        return [y, *rest, ge.Identity(running_mean), ge.Identity(running_var)]
    scale = _full_like(running_mean, 1) if weight is None else weight
    offset = _full_like(running_mean, 0) if bias is None else bias
    running = (ge.TensorMove(running_mean), ge.TensorMove(running_var))
    how = {"momentum": known("momentum", momentum), "epsilon": known("eps", eps)}
    y, new_mean, new_var, mean, rstd = ge.BatchNormV3(input, scale, offset, *running, **how)
    images(y)
    return [y, mean, rstd, new_mean, new_var]


@register_fx_node_ge_converter(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: Any,
    eps: Any,
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    mean = meta_outputs[1]
    sizes = integers([size_at(input, 1)])
    start = [typed(ge.Fill(sizes, operand(value, mean.dtype)), mean.dtype, mean.size) for value in (0, 1)]
    given = (weight, bias, *start, True, momentum, eps)
    return batch_norm_in_training(input, *given, meta_outputs=None)[:3]


def _full_like(x: Tensor, number: int) -> Tensor:
    return ge.Fill(shape_of(x), operand(number, x.dtype))


@register_fx_node_ge_converter(aten.native_group_norm.default)
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: Any,
    *,
    meta_outputs: Any,
) -> Sequence[Tensor]:
    channels = integers([size_at(input, 1)])
    gamma = ge.Fill(channels, operand(1, input.dtype)) if weight is None else weight
    beta = ge.Fill(channels, operand(0, input.dtype)) if bias is None else bias
    results = ge.GroupNormV2(
        input, gamma, beta, num_groups=known("group", group), data_format="NCHW", eps=known("eps", eps)
    )
    images(results[0])
    return results


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
    window = along(2, "kernel_size", kernel_size)
    top, left = along(2, "padding", padding)
    result = ge.AvgPoolV2(
        ge.Unsqueeze(self, axes=[0]) if self.rank == 3 else self,
        ksize=[1, 1, *window],
        strides=[1, 1, *(along(2, "stride", stride) if stride else window)],
        padding_mode="CALCULATED",
        pads=[top, top, left, left],
        data_format="NCHW",
        ceil_mode=ceil_mode,
        exclusive=not count_include_pad,
        divisor_override=known("divisor_override", divisor_override) or 0,
    )
    images(result)
    return ge.Squeeze(result, axis=[0]) if self.rank == 3 else result


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
) -> Sequence[Tensor]:
    window = along(2, "kernel_size", kernel_size)
    results = ge.MaxPoolWithArgmaxV3(
        ge.Unsqueeze(self, axes=[0]) if self.rank == 3 else self,
        ksize=window,
        strides=along(2, "stride", stride) if stride else window,
        pads=along(2, "padding", padding),
        dtype=int(DataType.DT_INT64),
        dilation=along(2, "dilation", dilation),
        ceil_mode=ceil_mode,
        data_format="NCHW",
    )
    images(results[0], outputs=(0, 1))
    return [ge.Squeeze(result, axis=[0]) for result in results] if self.rank == 3 else results


@register_fx_node_ge_converter(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(self: Tensor, output_size: Sequence[int], *, meta_outputs: Any) -> Tensor:
    result = ge.AdaptiveAvgPool2d(self, output_size=along(2, "output_size", output_size))
    images(result)
    return result
