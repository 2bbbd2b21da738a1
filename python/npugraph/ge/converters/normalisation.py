# SPDX-License-Identifier: Apache-2.0
"""Converters of normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import images, integers, known, operand, shape_of, size_at, typed
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
