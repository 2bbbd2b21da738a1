# SPDX-License-Identifier: Apache-2.0
"""Converters of sizes, and of functions of Python on numbers that only a run of the graph knows."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import operand, parts_of, shape_of, size_at, typed
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.sym_size.int)
def sym_size(self: Tensor, dim: int, *, meta_outputs: Any) -> Tensor:
    return operand(size_at(self, dim), meta_outputs.dtype)


@register_fx_node_ge_converter(aten.sym_numel.default)
def sym_numel(self: Tensor, *, meta_outputs: Any) -> Tensor:
    return ge.ReduceProd(shape_of(self), [0])


@register_fx_node_ge_converter(aten._local_scalar_dense.default)
def local_scalar_dense(self: Tensor, *, meta_outputs: Any) -> Tensor:
    """A number keeps the type of the tensor that it is read from."""
    scalar = ge.Identity(self) if self.rank == 0 else ge.Reshape(self, [])
    return typed(scalar, self.dtype, ())


@register_fx_node_ge_converter(operator.pow)
def pow_(self: Any, other: Any, *, meta_outputs: Any) -> Tensor:
    """A small whole exponent is a product, which the engine follows."""
    if isinstance(other, int) and 2 <= other <= 8:
        return functools.reduce(ge.Mul, [operand(self, meta_outputs.dtype)] * other)
    return ge.Pow(operand(self, meta_outputs.dtype), operand(other, meta_outputs.dtype))


@register_fx_node_ge_converter(torch.sym_sum)
def sym_sum(numbers: Any, *, meta_outputs: Any) -> Tensor:
    return functools.reduce(ge.Add, (operand(number, meta_outputs.dtype) for number in parts_of(numbers)))
