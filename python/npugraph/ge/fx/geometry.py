# SPDX-License-Identifier: Apache-2.0
"""Sizes and strides of fake tensors: how they lie in memory, as texts of the engine, and as numbers of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from npugraph.fx.translate.symbolic import SymbolicConverter, Unsupported


def is_row_major(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of a dense row-major tensor. Strides of dimensions of size 1 do not matter."""
    return _is_dense_in(range(tensor.dim()), tensor)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of a dense tensor with its dimensions in some order. False if nobody knows it."""
    strides = [_hint(stride) for stride in tensor.stride()]
    if None in strides:
        return False
    return _is_dense_in(sorted(range(tensor.dim()), key=lambda dim: -strides[dim]), tensor)


def _is_dense_in(order: Sequence[int], tensor: torch.Tensor) -> bool:
    """Whether the tensor is dense with its dimensions in this order, the one with the largest stride first."""
    sizes, strides = expressions_of(tensor.size()), expressions_of(tensor.stride())
    expected: Any = 1
    for dim in reversed(order):
        if sizes[dim] == 1:
            continue
        if strides[dim] != expected:
            return False
        expected = expected * (max(sizes[dim], 1) if isinstance(sizes[dim], int) else sizes[dim])
    return True


def _hint(number: int | torch.SymInt) -> Any:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def expressions_of(numbers: Iterable[Any]) -> list[Any]:
    """Numbers of torch as numbers and sympy expressions, which can be compared without guards."""
    return [
        number.node.expr if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) else number
        for number in numbers
    ]


def texts(numbers: Sequence[Any]) -> list[str] | None:
    """The numbers in the syntax of the engine (src/tensor/expr.h). None if it has no word for one."""
    converter = SymbolicConverter()
    try:
        return [str(converter(number)) for number in numbers]
    except Unsupported:
        return None


class Symbols:
    """The symbols of a graph, as what the inputs of a call say of them. ``inputs`` are the values of its
    placeholders."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._sources: dict[str, str] = {}
        for place, value in enumerate(inputs):
            for number, source in _numbers_of(value, f"inputs[{place}]"):
                (expr,) = expressions_of([number])
                if isinstance(expr, sympy.Symbol):
                    self._sources.setdefault(expr.name, source)

    def function(self, numbers: Sequence[Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """A function of the inputs of a call that returns these numbers. Raises ``NotImplementedError`` if the inputs
        do not say them."""
        exprs = [sympy.sympify(expr) for expr in expressions_of(numbers)]
        names = sorted({symbol.name for expr in exprs for symbol in expr.free_symbols})
        unknown = [name for name in names if name not in self._sources]
        if unknown:
            raise NotImplementedError(f"no input has the size {unknown[0]}")
        values = "".join(f"{PythonPrinter().doprint(expr)}, " for expr in exprs)
        sources = ", ".join(self._sources[name] for name in names)
        text = f"lambda inputs: (lambda {', '.join(names)}: ({values}))({sources})"
        return eval(text, _NAMES)


_NAMES = {"math": math}  # what a text of PythonPrinter uses


def _numbers_of(value: Any, place: str) -> Sequence[tuple[Any, str]]:
    if not isinstance(value, torch.Tensor):
        return [(value, place)]
    queries = [(value.size(), "size"), (value.stride(), "stride")]
    return [(number, f"{place}.{query}({dim})") for numbers, query in queries for dim, number in enumerate(numbers)]
