# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that compute each element from elements at the same place."""

from __future__ import annotations

import math
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge import data_types
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import Late, as_attributes, cast, exactly, known, operand, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.add.Tensor)
@register_fx_node_ge_converter(aten.add.Scalar)
def add(self: Any, other: Any, alpha: Any = 1, *, meta_outputs: Any) -> Tensor:
    return _scaled_sum(self, other, alpha, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.sub.Tensor)
@register_fx_node_ge_converter(aten.sub.Scalar)
def sub(self: Any, other: Any, alpha: Any = 1, *, meta_outputs: Any) -> Tensor:
    return _scaled_difference(self, other, alpha, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.rsub.Tensor)
@register_fx_node_ge_converter(aten.rsub.Scalar)
def rsub(self: Any, other: Any, alpha: Any = 1, *, meta_outputs: Any) -> Tensor:
    return _scaled_difference(other, self, alpha, meta_outputs.dtype)


def _scaled_sum(x1: Any, x2: Any, alpha: Any, dtype: Any) -> Tensor:
    """x1 + alpha * x2"""
    alpha = known("alpha", alpha)
    return exactly(ge.Add, dtype, x1, x2) if alpha == 1 else exactly(ge.AxpyV2, dtype, x1, x2, alpha)


def _scaled_difference(x1: Any, x2: Any, alpha: Any, dtype: Any) -> Tensor:
    """x1 - alpha * x2"""
    alpha = known("alpha", alpha)
    return exactly(ge.Sub, dtype, x1, x2) if alpha == 1 else exactly(ge.AxpyV2, dtype, x1, x2, -alpha)


@register_fx_node_ge_converter(aten.div.Tensor_mode)
@register_fx_node_ge_converter(aten.div.Scalar_mode)
def div_mode(self: Any, other: Any, *, rounding_mode: str | None, meta_outputs: Any) -> Tensor:
    dtype = meta_outputs.dtype
    if rounding_mode == "floor":
        return exactly(ge.FloorDiv, dtype, self, other)
    if rounding_mode is None:
        return exactly(ge.RealDiv, dtype, self, other)
    if not data_types.to_torch(dtype).is_floating_point:
        return ge.Div(operand(self, dtype), operand(other, dtype))
    quotient = exactly(ge.RealDiv, dtype, self, other)
    if dtype != DataType.DT_DOUBLE:
        return ge.Trunc(quotient)
    return ge.SelectV2(
        ge.Less(quotient, operand(0, dtype)), ge.Ceil(quotient), ge.Floor(quotient)
    )  # Trunc has no double


@register_fx_node_ge_converter(aten.bitwise_and.Tensor)
@register_fx_node_ge_converter(aten.bitwise_and.Scalar)
def bitwise_and(self: Any, other: Any, *, meta_outputs: Any) -> Tensor:
    return _of_bits("LogicalAnd", "BitwiseAnd", self, other, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.bitwise_or.Tensor)
@register_fx_node_ge_converter(aten.bitwise_or.Scalar)
def bitwise_or(self: Any, other: Any, *, meta_outputs: Any) -> Tensor:
    return _of_bits("LogicalOr", "BitwiseOr", self, other, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.bitwise_xor.Tensor)
@register_fx_node_ge_converter(aten.bitwise_xor.Scalar)
def bitwise_xor(self: Any, other: Any, *, meta_outputs: Any) -> Tensor:
    return _of_bits("NotEqual", "BitwiseXor", self, other, meta_outputs.dtype)


def _of_bits(of_bool: str, of_integers: str, x1: Any, x2: Any, dtype: Any) -> Tensor:
    op_type = of_bool if dtype == DataType.DT_BOOL else of_integers
    return getattr(ge, op_type)(operand(x1, dtype), operand(x2, dtype))


@register_fx_node_ge_converter(aten.bitwise_not.default)
def bitwise_not(self: Tensor, *, meta_outputs: Any) -> Tensor:
    dtype = meta_outputs.dtype
    if dtype == DataType.DT_BOOL:
        return ge.LogicalNot(self)
    return ge.Invert(self)


@register_fx_node_ge_converter(aten.isinf.default)
def isinf(self: Tensor, *, meta_outputs: Any) -> Tensor:
    if not data_types.to_torch(self.dtype).is_floating_point:
        return ge.LogicalAnd(cast(self, DataType.DT_BOOL), operand(False, DataType.DT_BOOL))
    return ge.IsInf(cast(self, DataType.DT_FLOAT) if self.dtype == DataType.DT_BF16 else self)  # it takes no bf16


@register_fx_node_ge_converter(aten.nan_to_num.default)
def nan_to_num(self: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None, *, meta_outputs: Any) -> Tensor:
    dtype = data_types.to_torch(self.dtype)
    if not dtype.is_floating_point:
        return ge.Identity(self)
    info = torch.finfo(dtype)
    given = {"nan": (nan, 0.0), "posinf": (posinf, info.max), "neginf": (neginf, info.min)}
    values = {name: default if value is None else known(name, value) for name, (value, default) in given.items()}
    return ge.NanToNum(self, **as_attributes(values, self.dtype))


@register_fx_node_ge_converter(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(self: Tensor, *, meta_outputs: Any) -> list[Tensor]:
    """The second result is what kernels of the host keep for the gradient, which Ascend's does without."""
    kept = Late(lambda: ge.Exp(typed(ge.Neg(ge.Abs(self)), self.dtype, meta_outputs[1].size)), meta_outputs[1].size)
    return [ge.LogSigmoid(self), kept]


@register_fx_node_ge_converter(aten.masked_fill.Scalar)
@register_fx_node_ge_converter(aten.masked_fill.Tensor)
def masked_fill(self: Tensor, mask: Tensor, value: Any, *, meta_outputs: Any) -> Tensor:
    filler = operand(value, meta_outputs.dtype)
    is_number = not isinstance(value, Tensor)  # MaskedFill takes no other
    return ge.MaskedFill(self, mask, filler) if is_number else ge.SelectV2(mask, filler, self)


@register_fx_node_ge_converter(aten.clamp.default)
@register_fx_node_ge_converter(aten.clamp.Tensor)
def clamp(self: Tensor, min: Any = None, max: Any = None, *, meta_outputs: Any) -> Tensor:
    return _clamped(self, min, max, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.clamp_min.default)
@register_fx_node_ge_converter(aten.clamp_min.Tensor)
def clamp_min(self: Tensor, min: Any, *, meta_outputs: Any) -> Tensor:
    return _clamped(self, min, None, meta_outputs.dtype)


@register_fx_node_ge_converter(aten.clamp_max.default)
@register_fx_node_ge_converter(aten.clamp_max.Tensor)
def clamp_max(self: Tensor, max: Any, *, meta_outputs: Any) -> Tensor:
    return _clamped(self, None, max, meta_outputs.dtype)


def _clamped(x: Tensor, low: Any, high: Any, dtype: Any) -> Tensor:
    """ClipByValueV2 takes numbers. Where a bound is a tensor, the larger and then the smaller elements are taken."""
    x = cast(x, dtype)
    if not isinstance(low, Tensor) and not isinstance(high, Tensor):
        least, most = _range(dtype)
        bounds = (least if low is None else low, most if high is None else high)
        return ge.ClipByValueV2(x, *(operand(bound, dtype) for bound in bounds))
    if low is not None:
        x = ge.Maximum(x, operand(low, dtype))
    return x if high is None else ge.Minimum(x, operand(high, dtype))


def _range(dtype: Any) -> tuple[float | int, float | int]:
    """Numbers that no element is below or above."""
    of_torch = data_types.to_torch(dtype)
    if of_torch.is_floating_point:
        return -math.inf, math.inf
    info = torch.iinfo(of_torch)
    return info.min, info.max


@register_fx_node_ge_converter(aten.frac.default)
def frac(self: Tensor, *, meta_outputs: Any) -> Tensor:
    return ge.Sub(self, typed(ge.Trunc(self), self.dtype, self.symsize or ()))
