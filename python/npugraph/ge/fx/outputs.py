# SPDX-License-Identifier: Apache-2.0
"""Outputs of FX graphs: which of them the engine computes, and how the host makes the others."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.printers import PythonPrinter

from npugraph.fx.nodes import base_of
from npugraph.fx.values import expressions, is_row_major
from npugraph.ge.data_types import TensorSpec
from npugraph.ge.fx.values import constant, is_number, not_of_ge, spec_of

Numbers = Callable[[Sequence[Any]], tuple[Any, ...]]  # a function of the inputs of a call
Finish = Callable[[Sequence[Any]], Any]  # from the results of the engine in a call to an output, or to all


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A value that is the same in every call, such as None."""

    value: Any

    def __call__(self, inputs: Sequence[Any]) -> Finish:
        return lambda results: self.value


@dataclasses.dataclass(frozen=True)
class Computed:
    """A number that follows from sizes and numbers among the inputs."""

    numbers: Numbers

    def __call__(self, inputs: Sequence[Any]) -> Finish:
        (number,) = self.numbers(inputs)
        return lambda results: number


@dataclasses.dataclass(frozen=True)
class Window:
    """How a tensor lies in its storage: ``numbers`` are its sizes, its strides, and an offset."""

    rank: int
    numbers: Numbers

    def of(self, inputs: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        numbers = self.numbers(inputs)
        return numbers[: self.rank], numbers[self.rank : -1], numbers[-1]


@dataclasses.dataclass(frozen=True)
class Given:
    """Input ``index``, or a view of it, whose offset counts from that of the input."""

    index: int
    view: Window | None = None

    def __call__(self, inputs: Sequence[Any]) -> Finish:
        tensor = inputs[self.index]
        if self.view is not None:
            sizes, strides, offset = self.view.of(inputs)
            tensor = tensor.as_strided(sizes, strides, tensor.storage_offset() + offset)
        return lambda results: tensor


@dataclasses.dataclass(frozen=True)
class Result:
    """Result ``index`` of the engine, which is dense and row-major. ``layout`` is set if it lies in another way in
    eager mode."""

    index: int
    layout: Window | None = None

    def __call__(self, inputs: Sequence[Any]) -> Finish:
        if self.layout is None:
            return operator.itemgetter(self.index)
        _, strides, offset = self.layout.of(inputs)
        return lambda results: _lying_so(results[self.index], strides, offset)


def _lying_so(tensor: torch.Tensor, strides: tuple[int, ...], offset: int) -> torch.Tensor:
    lies_so = tensor.stride() == strides and tensor.storage_offset() == offset
    return tensor if lies_so else _laid_out(tensor, strides, offset)


def _laid_out(tensor: torch.Tensor, strides: Sequence[int], offset: int) -> torch.Tensor:
    """A copy with these strides and this offset in a new storage. Elements of a dimension of stride 0 are one
    element."""
    sizes = [min(size, 1) if stride == 0 else size for size, stride in zip(tensor.shape, strides, strict=True)]
    behind = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
    memory = tensor.new_empty(behind)
    memory.as_strided(sizes, strides, offset).copy_(tensor[tuple(slice(size) for size in sizes)])
    return memory.as_strided(tensor.shape, strides, offset)


# A function of the inputs of a call. What it returns keeps no input alive but one that is an output.
Entry = Fixed | Computed | Given | Result


@dataclasses.dataclass(frozen=True)
class OutputPlan:
    """How the outputs of an FX graph come about in a call. ``results`` are the nodes whose tensors the engine
    returns, in order, and ``specs`` are theirs; ``entries`` keep nothing of the graph alive."""

    entries: tuple[Entry, ...]
    results: tuple[fx.Node, ...]
    specs: tuple[TensorSpec, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the outputs are the results of the engine as they are."""
        return self.entries == tuple(Result(index) for index in range(len(self.results)))

    def finisher(self) -> Callable[[Sequence[Any]], Finish]:
        """A function of the inputs of a call, all that the FX graph has. What it returns makes the outputs of the
        engine's results."""
        if self.is_plain:
            return lambda inputs: list
        entries = self.entries

        def finish(inputs: Sequence[Any]) -> Finish:
            outputs = [entry(inputs) for entry in entries]
            return lambda results: [output(results) for output in outputs]

        return finish


def plan_outputs(
    outputs: Sequence[Any], placeholders: Sequence[fx.Node], *, numbers_are_results: bool = False
) -> OutputPlan:
    """The plan for ``outputs``, the leaves of an FX graph's output. Numbers that depend on the call are results of the
    engine, or else of the host. Raises ``NotImplementedError`` if GE does not have an output, or if sizes of one do not
    follow from the inputs."""
    numbers = NumbersOfCall([node.meta.get("val") for node in placeholders])
    places = {node: place for place, node in enumerate(placeholders)}
    results: dict[fx.Node, int] = {}

    def entry(output: Any) -> Entry:
        if not isinstance(output, fx.Node):
            return Fixed(output)
        value = output.meta.get("val")
        if value is None:
            return Fixed(None)
        if is_number(value):
            if numbers_are_results and constant(value) is None:
                return Result(results.setdefault(output, len(results)))
            return Computed(numbers.function([value]))
        if not isinstance(value, torch.Tensor):
            raise not_of_ge(value)
        if output.target is torch.ops.aten.copy_.default:  # it returns what it writes
            output = output.args[0]
        origin = _origin(output)
        if origin in places:
            is_whole = output is origin
            return Given(places[origin], None if is_whole else _window(numbers, value, origin.meta["val"]))
        index = results.setdefault(output, len(results))
        is_plain = is_row_major(value) and value.storage_offset() == 0
        return Result(index, None if is_plain else _window(numbers, value))

    entries = tuple(map(entry, outputs))
    return OutputPlan(entries, tuple(results), tuple(spec_of(result.meta["val"]) for result in results))


def _origin(node: fx.Node) -> fx.Node:
    """The node whose memory a node views with elements of the same type; the node itself if it views none."""
    base = base_of(node)
    value = base.meta.get("val")
    has_same_type = isinstance(value, torch.Tensor) and value.dtype == node.meta["val"].dtype
    return base if has_same_type else node


def _window(numbers: NumbersOfCall, tensor: torch.Tensor, origin: torch.Tensor | None = None) -> Window:
    offset, from_ = expressions([tensor.storage_offset(), 0 if origin is None else origin.storage_offset()])
    return Window(tensor.dim(), numbers.function([*tensor.size(), *tensor.stride(), offset - from_]))


class NumbersOfCall:
    """Numbers that follow from the inputs of a call. ``inputs`` are the values of the placeholders of the graph."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._sources: dict[str, str] = {}
        for place, value in enumerate(inputs):
            for number, source in _numbers_of(value, f"inputs[{place}]"):
                (expr,) = expressions([number])
                if isinstance(expr, sympy.Symbol):
                    self._sources.setdefault(expr.name, source)

    def function(self, numbers: Sequence[Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """A function of the inputs of a call that returns these numbers. Raises ``NotImplementedError`` if the inputs
        do not say them."""
        exprs = [sympy.sympify(expr) for expr in expressions(numbers)]
        names = sorted({symbol.name for expr in exprs for symbol in expr.free_symbols})
        unknown = [name for name in names if name not in self._sources]
        if unknown:
            raise NotImplementedError(f"no input has the size {unknown[0]}")
        values = "".join(f"{PythonPrinter().doprint(expr)}, " for expr in exprs)
        sources = ", ".join(self._sources[name] for name in names)
        text = f"lambda inputs: (lambda {', '.join(names)}: ({values}))({sources})"
        return eval(text, _NAMES)


_NAMES = {"math": math, "torch": torch}  # what a text of PythonPrinter uses


def _numbers_of(value: Any, place: str) -> Sequence[tuple[Any, str]]:
    if not isinstance(value, torch.Tensor):
        return [(value, place)]
    queries = [(value.size(), "size"), (value.stride(), "stride")]
    return [(number, f"{place}.{query}({dim})") for numbers, query in queries for dim, number in enumerate(numbers)]
