# SPDX-License-Identifier: Apache-2.0
"""Converters of random numbers.

Ascend's operators make numbers of seeds, or of a key and a counter. Here the numbers are those of eager mode: operators
of the host draw them, from the generator of the device and in the order of the program. Seeds are zeros."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge import data_types
from npugraph.ge.converters import part_functions
from npugraph.ge.converters.computations import computed_by
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import known, operand, shape_of, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten
_DRAWS = part_functions.DRAWS


@register_fx_node_ge_converter(aten.rand.default)
@register_fx_node_ge_converter(aten.rand.generator)
def rand(size: Any, *, generator: Any = None, device: Any = None, meta_outputs: Any, **of_memory: Any) -> Tensor:
    _refuse(generator)
    return _uniform(size, meta_outputs, device)


@register_fx_node_ge_converter(aten.rand_like.default)
def rand_like(self: Tensor, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _uniform(shape_of(self), meta_outputs, self)


def _uniform(size: Any, spec: Any, place: Any) -> Tensor:
    result = ge.StatelessRandomUniformV2(size, *_key(), dtype=spec.dtype)
    return computed_by(result, part_functions.uniform, *_drawn(spec, place), calls=_DRAWS)


@register_fx_node_ge_converter(aten.uniform.default)
def uniform(self: Tensor, from_: Any = 0.0, to: Any = 1.0, *, generator: Any = None, meta_outputs: Any) -> Tensor:
    """Half types have fewer different numbers than a conversion of others would have."""
    _refuse(generator)
    low, high, dtype = known("from", from_), known("to", to), meta_outputs.dtype
    drawn = _uniform(shape_of(self), meta_outputs, self)
    if (low, high) == (0, 1):
        return drawn
    if dtype not in (DataType.DT_FLOAT, DataType.DT_DOUBLE):
        raise NotImplementedError("its bounds are not 0 and 1, and its elements are of a half type")
    scaled = typed(ge.Mul(typed(drawn, dtype, meta_outputs.size), operand(high - low, dtype)), dtype, meta_outputs.size)
    return ge.Add(scaled, operand(low, dtype))


@register_fx_node_ge_converter(aten.randn.default)
@register_fx_node_ge_converter(aten.randn.generator)
def randn(size: Any, *, generator: Any = None, device: Any = None, meta_outputs: Any, **of_memory: Any) -> Tensor:
    _refuse(generator)
    return _normal(size, meta_outputs, device)


@register_fx_node_ge_converter(aten.randn_like.default)
def randn_like(self: Tensor, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _normal(shape_of(self), meta_outputs, self)


def _normal(size: Any, spec: Any, place: Any) -> Tensor:
    _require_rows(spec)
    result = ge.StatelessRandomNormalV2(size, *_key(), dtype=spec.dtype)
    return computed_by(result, part_functions.normal, *_drawn(spec, place), calls=_DRAWS)


@register_fx_node_ge_converter(aten.randint.default)
@register_fx_node_ge_converter(aten.randint.generator)
def randint(
    high: Any, size: Any, *, generator: Any = None, device: Any = None, meta_outputs: Any, **of_memory: Any
) -> Tensor:
    _refuse(generator)
    return _whole(0, high, size, meta_outputs, device)


@register_fx_node_ge_converter(aten.randint.low)
@register_fx_node_ge_converter(aten.randint.low_generator)
def randint_low(
    low: Any, high: Any, size: Any, *, generator: Any = None, device: Any = None, meta_outputs: Any, **of_memory: Any
) -> Tensor:
    _refuse(generator)
    return _whole(low, high, size, meta_outputs, device)


@register_fx_node_ge_converter(aten.randint_like.default)
def randint_like(self: Tensor, high: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _whole(0, high, shape_of(self), meta_outputs, self)


@register_fx_node_ge_converter(aten.randint_like.low_dtype)
def randint_like_low(self: Tensor, low: Any, high: Any, *, meta_outputs: Any, **of_memory: Any) -> Tensor:
    return _whole(low, high, shape_of(self), meta_outputs, self)


def _whole(low: Any, high: Any, size: Any, spec: Any, place: Any) -> Tensor:
    bounds = (known("low", low), known("high", high))
    ends = (ge.Const(bound, dtype=DataType.DT_INT64) for bound in bounds)
    result = ge.StatelessRandomUniformIntV2(size, *_key(), *ends)
    return computed_by(result, part_functions.whole, *_drawn(spec, place), *bounds, calls=_DRAWS)


@register_fx_node_ge_converter(aten.randperm.default)
def randperm(n: Any, *, device: Any = None, meta_outputs: Any, **of_memory: Any) -> Tensor:
    count = known("n", n)
    result = ge.StatelessRandperm(ge.Const(count), 0, 0, dtype=meta_outputs.dtype)
    dtype = data_types.to_torch(meta_outputs.dtype)
    return computed_by(result, part_functions.permutation, count, dtype, device, calls=_DRAWS)


@register_fx_node_ge_converter(aten.bernoulli.default)
def bernoulli(self: Tensor, *, generator: Any = None, meta_outputs: Any) -> Tensor:
    _refuse(generator)
    result = ge.StatelessBernoulli(shape_of(self), self, 0, 0, dtype=meta_outputs.dtype)
    return computed_by(result, aten.bernoulli.default, self)


@register_fx_node_ge_converter(aten.bernoulli.Tensor)
def bernoulli_tensor(self: Tensor, p: Tensor, *, generator: Any = None, meta_outputs: Any) -> Tensor:
    _refuse(generator)
    _require_rows(meta_outputs)
    result = ge.StatelessBernoulli(shape_of(self), p, 0, 0, dtype=meta_outputs.dtype)
    return computed_by(result, part_functions.coins_of_tensor, self, p, calls=_DRAWS)


@register_fx_node_ge_converter(aten.bernoulli.p)
def bernoulli_p(self: Tensor, p: Any, *, generator: Any = None, meta_outputs: Any) -> Tensor:
    _refuse(generator)
    p = known("p", p)
    result = ge.StatelessBernoulli(shape_of(self), p, 0, 0, dtype=meta_outputs.dtype)
    return computed_by(result, part_functions.coins, *_drawn(meta_outputs, self), p, calls=_DRAWS)


@register_fx_node_ge_converter(aten.multinomial.default)
def multinomial(
    self: Tensor, num_samples: Any, replacement: bool = False, *, generator: Any = None, meta_outputs: Any
) -> Tensor:
    _refuse(generator)
    number = known("num_samples", num_samples)
    result = ge.MultinomialWithReplacement(self, 0, 0, numsamples=number, replacement=replacement)
    return computed_by(result, aten.multinomial.default, self, number, replacement)


@register_fx_node_ge_converter(aten.native_dropout.default)
def native_dropout(input: Tensor, p: Any, train: bool | None, *, meta_outputs: Any) -> list[Tensor]:
    """The mask has an element for each one of the input, and Ascend's a bit."""
    spec, p = meta_outputs[1], known("p", p)
    if train is False:
        ones = ge.Fill(shape_of(input), operand(True, DataType.DT_BOOL))
        return [ge.TensorMove(input), ones]
    kept = operand(1 - p, DataType.DT_FLOAT)
    mask = typed(ge.StatelessDropOutGenMask(shape_of(input), kept, 0, 0), spec.dtype, spec.size)
    computed_by(mask, part_functions.coins, *_drawn(spec, input), 1 - p, calls=_DRAWS)
    return [computed_by(ge.DropOutDoMask(input, mask, kept), part_functions.dropped, input, mask, p), mask]


@register_fx_node_ge_converter(aten.native_dropout_backward.default)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: Any, *, meta_outputs: Any) -> Tensor:
    scale = known("scale", scale)
    kept = operand(1 / scale if scale else 0.0, DataType.DT_FLOAT)
    result = ge.DropOutDoMask(grad_output, mask, kept)
    return computed_by(result, part_functions.scaled_by_mask, grad_output, mask, scale)


def _drawn(spec: Any, place: Any) -> tuple[Any, ...]:
    """How a result is drawn: its sizes, the order of its dimensions in memory, its element type, and a tensor of its
    device, or the device."""
    if spec.order is None:
        raise NotImplementedError("its result is no dense tensor")
    order = list(spec.order or range(len(spec.size)))
    return list(spec.size), order, data_types.to_torch(spec.dtype), place


def _key() -> tuple[Tensor, ...]:
    """A key, a counter and the number of an algorithm."""
    unsigned = DataType.DT_UINT64
    return ge.Const([0], dtype=unsigned), ge.Const([0, 0], dtype=unsigned), ge.Const(1, dtype=DataType.DT_INT32)


def _refuse(generator: Any) -> None:
    if generator is not None:
        raise NotImplementedError("its argument generator is not that of the device")


def _require_rows(spec: Any) -> None:
    """Where a result that lies in other ways gets other numbers in eager mode."""
    if spec.order != ():
        raise NotImplementedError("its result does not lie in rows")
