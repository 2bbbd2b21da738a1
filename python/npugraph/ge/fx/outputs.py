# SPDX-License-Identifier: Apache-2.0
"""Outputs of FX graphs: which of them the engine computes, and how the host makes the others: by functions of this
process, or by texts, in which other processes read an expression of the inputs and of ``out``, the engine's results."""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.printers import PythonPrinter

from npugraph.fx.nodes import base_of
from npugraph.fx.values import expressions, is_row_major
from npugraph.fx.windows import lying_so
from npugraph.ge.data_types import TensorSpec
from npugraph.ge.fx.values import constant, is_number, not_of_ge, spec_of

Finish = Callable[[Sequence[Any]], Any]  # from the results of the engine in a call to an output, or to all


class Numbers:
    """Numbers as a function of the inputs of a call. ``values`` are expressions of names, and ``places`` says where in
    ``inputs`` each name is found."""

    def __init__(self, values: Sequence[str], places: Mapping[str, str]) -> None:
        self._values, self._places = values, places
        made = "".join(f"{value}, " for value in values)
        text = f"lambda inputs: (lambda {', '.join(places)}: ({made}))({', '.join(places.values())})"
        self._function: Callable[[Sequence[Any]], tuple[Any, ...]] = eval(text, _NAMES)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self._function(inputs)

    def texts(self, inputs: Sequence[str]) -> list[str]:
        """The numbers as expressions of the inputs, which are given as texts."""
        named = {name: _INPUT.sub(lambda found: inputs[int(found[1])], place) for name, place in self._places.items()}
        return [_NAME.sub(lambda found: named.get(found[0], found[0]), value) for value in self._values]


_NAMES = {"math": math, "torch": torch}  # what a text of PythonPrinter uses
_INPUT, _NAME = re.compile(r"\binputs\[(\d+)\]"), re.compile(r"\b[A-Za-z_]\w*\b")


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A value that is the same in every call, such as None."""

    value: Any

    def __call__(self, inputs: Sequence[Any]) -> Finish:
        return lambda results: self.value

    def text(self, inputs: Sequence[str]) -> str:
        return repr(self.value)


@dataclasses.dataclass(frozen=True)
class Computed:
    """A number that follows from sizes and numbers among the inputs."""

    numbers: Numbers

    def __call__(self, inputs: Sequence[Any]) -> Finish:
        (number,) = self.numbers(inputs)
        return lambda results: number

    def text(self, inputs: Sequence[str]) -> str:
        (text,) = self.numbers.texts(inputs)
        return text


@dataclasses.dataclass(frozen=True)
class Window:
    """How a tensor lies in its storage: ``numbers`` are its sizes, its strides, and an offset."""

    rank: int
    numbers: Numbers

    def of(self, inputs: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        numbers = self.numbers(inputs)
        return numbers[: self.rank], numbers[self.rank : -1], numbers[-1]

    def texts(self, inputs: Sequence[str]) -> tuple[str, str]:
        """The strides and the offset as expressions of the inputs."""
        *strides, offset = self.numbers.texts(inputs)[self.rank :]
        return f"({''.join(f'{stride}, ' for stride in strides)})", offset


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

    def text(self, inputs: Sequence[str]) -> str | None:
        return inputs[self.index] if self.view is None else None


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
        return lambda results: lying_so(results[self.index], strides, offset)

    def text(self, inputs: Sequence[str]) -> str:
        if self.layout is None:
            return f"out[{self.index}]"
        strides, offset = self.layout.texts(inputs)
        return f"lying_so(out[{self.index}], {strides}, {offset})"


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

    def texts(self, inputs: Sequence[str]) -> list[str] | None:
        """The outputs as expressions of the inputs, which are given as texts, and of ``out``. None if one is a view of
        an input."""
        texts = [entry.text(inputs) for entry in self.entries]
        return None if None in texts else texts


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

    def function(self, numbers: Sequence[Any]) -> Numbers:
        """These numbers as a function of the inputs of a call. Raises ``NotImplementedError`` if the inputs do not say
        them."""
        exprs = [sympy.sympify(expr) for expr in expressions(numbers)]
        names = sorted({symbol.name for expr in exprs for symbol in expr.free_symbols})
        unknown = [name for name in names if name not in self._sources]
        if unknown:
            raise NotImplementedError(f"no input has the size {unknown[0]}")
        values = [PythonPrinter().doprint(expr) for expr in exprs]
        return Numbers(values, {name: self._sources[name] for name in names})


def _numbers_of(value: Any, place: str) -> Sequence[tuple[Any, str]]:
    if not isinstance(value, torch.Tensor):
        return [(value, place)]
    queries = [(value.size(), "size"), (value.stride(), "stride")]
    return [(number, f"{place}.{query}({dim})") for numbers, query in queries for dim, number in enumerate(numbers)]
