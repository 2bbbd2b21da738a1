# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that compute one element from many along dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import add, register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, dimension, known, operand, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten

# Targets of one tensor, of which all dimensions are reduced, or a list of them.
_REDUCTIONS = {
    "ReduceAll": ("aten.all.default", "aten.all.dims"),
    "ReduceAny": ("aten.any.default", "aten.any.dims"),
    "ReduceMax": ("aten.amax.default", "aten.max.default"),
    "ReduceMean": ("aten.mean.default", "aten.mean.dim"),
    "ReduceMin": ("aten.amin.default", "aten.min.default"),
    "ReduceSum": ("aten.sum.default", "aten.sum.dim_IntList"),
}


def _reduce(
    op_type: str,
    self: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    meta_outputs: Any,
    dtype: Any = None,  # the type of the result
) -> Tensor:
    axes = [dimension(axis, self.rank) for axis in known("dim", dim) or range(self.rank)]
    return getattr(ge, op_type)(cast(self, meta_outputs.dtype), axes if self.rank else [], keep_dims=keepdim)


for _op_type, _targets in _REDUCTIONS.items():
    for _target in _targets:
        add(_target, functools.partial(_reduce, _op_type))


def _place(op_type: str, self: Tensor, dim: int | None = None, keepdim: bool = False, *, meta_outputs: Any) -> Tensor:
    """The place of an extreme, of all elements if ``dim`` is None."""
    if dim is not None and self.rank:
        return _places(op_type, self, dim, keepdim)
    place = getattr(ge, op_type)(ge.Reshape(self, [-1]), 0, dtype=DataType.DT_INT64)
    return ge.Reshape(typed(place, DataType.DT_INT64, ()), [1] * self.rank) if keepdim else place


def _extreme_and_place(
    reduction: str, op_type: str, self: Tensor, dim: int, keepdim: bool = False, *, meta_outputs: Any
) -> list[Tensor]:
    values = getattr(ge, reduction)(self, [dim] if self.rank else [], keep_dims=keepdim)
    return [values, _places(op_type, self, dim, keepdim) if self.rank else ge.Const(0)]


def _places(op_type: str, x: Tensor, dim: int, keepdim: bool) -> Tensor:
    found = getattr(ge, op_type)(x, dim, dtype=DataType.DT_INT64)
    place = typed(found, DataType.DT_INT64, [None] * (x.rank - 1))
    return ge.Unsqueeze(place, axes=[dimension(dim, x.rank)]) if keepdim else place


add("aten.argmax.default", functools.partial(_place, "ArgMaxV2"))
add("aten.argmin.default", functools.partial(_place, "ArgMin"))
add("aten.max.dim", functools.partial(_extreme_and_place, "ReduceMax", "ArgMaxV2"))
add("aten.min.dim", functools.partial(_extreme_and_place, "ReduceMin", "ArgMin"))


@register_fx_node_ge_converter(aten.linalg_vector_norm.default)
def vector_norm(
    self: Tensor,
    ord: Any = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,  # the type of the result
    meta_outputs: Any,
) -> Tensor:
    axes = [dimension(axis, self.rank) for axis in known("dim", dim) or range(self.rank)]
    x = cast(self, meta_outputs.dtype)
    return ge.LpNormV2(x, p=float(known("ord", ord)), axes=axes, keepdim=keepdim, epsilon=0.0)


@register_fx_node_ge_converter(aten.std.correction)
def std(
    self: Tensor, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False, meta_outputs: Any
) -> Tensor:
    removed = 1 if correction is None else known("correction", correction)
    if removed != int(removed):
        raise NotImplementedError(f"its argument correction is {removed!r}")
    axes = [dimension(axis, self.rank) for axis in known("dim", dim) or range(self.rank)]
    return ge.ReduceStdV2(self, dim=axes, correction=int(removed), keepdim=keepdim, is_mean_out=True)[0]


@register_fx_node_ge_converter(aten._weight_norm_interface.default)
def weight_norm(v: Tensor, g: Tensor, dim: int = 0, *, meta_outputs: Any) -> list[Tensor]:
    """v * (g / norms), where each place along ``dim`` has a norm."""
    axes = [axis for axis in range(v.rank) if axis != dimension(dim, v.rank)]
    weight, norm = meta_outputs
    norms = typed(ge.LpNormV2(cast(v, norm.dtype), axes=axes, keepdim=True, epsilon=0.0), norm.dtype, norm.size)
    ratio = typed(ge.RealDiv(cast(g, norm.dtype), norms), norm.dtype, norm.size)
    return [cast(typed(ge.Mul(cast(v, norm.dtype), ratio), norm.dtype, weight.size), weight.dtype), norms]


@register_fx_node_ge_converter(aten._safe_softmax.default)
def safe_softmax(self: Tensor, dim: int, dtype: Any = None, *, meta_outputs: Any) -> Tensor:
    """Rows whose elements are all -inf become 0."""
    x = cast(self, meta_outputs.dtype)
    is_hidden = ge.ReduceAll(ge.Equal(x, operand(-math.inf, meta_outputs.dtype)), [dim], keep_dims=True)
    return ge.SelectV2(is_hidden, operand(0, meta_outputs.dtype), ge.SoftmaxV2(x, axes=[dim]))
