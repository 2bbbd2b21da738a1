# SPDX-License-Identifier: Apache-2.0
"""Cuts a graph into graphs for GE, and the graph around them, which has the eager calls and calls the others.

The next graph was compiled for what the fake results of eager calls say, so real results get their strides. Errors of
users' operators name the operator and the user's line."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.error_notes import add_note
from npugraph.fx.schema import core_name, is_of_user
from npugraph.fx.source_lines import source_line
from npugraph.fx.translate.importer import InputInfo
from npugraph.fx.values import attribute, expressions, is_same, is_strided, makes_tensors, memory_order
from npugraph.ge.fx.stages import Reads, Stages, is_copy
from npugraph.ge.fx.values import call_of, constant


class Part(NamedTuple):
    """A graph for GE, with a description of each of its placeholders. ``origin`` maps its nodes to those of the whole
    graph that they are copies of."""

    gm: fx.GraphModule
    inputs: list[InputInfo]
    origin: dict[fx.Node, fx.Node]


class Cut(NamedTuple):
    """``around`` calls ``parts[i]`` as its attribute ``part_name(i)``, with the inputs of the part one by one, for a
    list of its outputs."""

    around: fx.GraphModule
    parts: list[Part]


def part_name(index: int) -> str:
    return f"part_{index}"


def cut(gm: fx.GraphModule, inputs: Sequence[InputInfo], reads: Reads, stages: Stages) -> Cut:
    """Cuts ``gm``; ``inputs`` describes its placeholders. Only results of calls cross from part to part. Views of them
    are made where they are read, so that they share memory and have the strides that ``gm`` has."""
    cutter = _Cutter(gm, inputs, reads, stages)
    for stage in stages.in_order():
        if stage.is_eager:
            cutter.add_eager(stage.calls)
        else:
            cutter.add_part(stage.calls)
    return cutter.finish()


class _Copies:
    """A graph of copies of nodes of ``gm``."""

    def __init__(self, gm: fx.GraphModule, reads: Reads) -> None:
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}  # what the graph has so far
        self._gm, self._reads = gm, reads
        self._attributes: dict[str, Any] = {}

    def value(self, node: fx.Node) -> fx.Node:
        """The copy of the node that stands for the value of ``node``, which is added if the graph has none."""
        node = self._reads.same_value(node)
        return self.copies[node] if node in self.copies else self.add(node)

    def add(self, node: fx.Node) -> fx.Node:
        if node.op == "get_attr":
            self._attributes[str(node.target)] = attribute(self._gm, str(node.target))
        for operand in node.all_input_nodes:
            self.value(operand)
        self.copies[node] = self.graph.node_copy(node, self.value)
        return self.copies[node]

    def add_input(self, node: fx.Node) -> None:
        made = self.copies[node] = self.graph.placeholder(node.name)
        made.meta = dict(node.meta)

    def module(self, **attributes: Any) -> fx.GraphModule:
        return fx.GraphModule(self._attributes | attributes, self.graph)


class _Cutter:
    def __init__(self, gm: fx.GraphModule, inputs: Sequence[InputInfo], reads: Reads, stages: Stages) -> None:
        self._gm, self._reads, self._stages = gm, reads, stages
        placeholders = gm.graph.find_nodes(op="placeholder")
        self._infos = dict(zip(placeholders, inputs, strict=True))
        self._parts: list[Part] = []
        self._output = gm.graph.output_node()
        self._returned = reads.read_by(self._output)
        self._crossing = self._find_crossing()
        self._results: dict[fx.Node, fx.Node] = {}  # what the parts return, in the graph around them
        self._around = _Copies(gm, reads)
        for node in placeholders:
            self._around.add_input(node)

    def add_eager(self, calls: Sequence[fx.Node]) -> None:
        for call in calls:
            copy = self._around.add(call)
            copy.target = _eager_call(call)

    def add_part(self, calls: Sequence[fx.Node]) -> None:
        part = _Copies(self._gm, self._reads)
        members = set(calls)
        sources = self._sources(calls, members)
        for source in sources:
            part.add_input(source)
        for call in calls:
            part.add(call)
        crossing = dict.fromkeys(node for node in self._crossing if call_of(node) in members)
        updated = self._updated(calls, crossing)
        results = [node for node in crossing if node in self._returned or node not in updated]
        part.graph.output(tuple(map(part.value, results)))
        self._call(sources, results)
        for node, written in updated.items():
            self._around.copies[node] = self._around.value(written)
        infos = [self._infos.get(source, InputInfo("user", source.name)) for source in sources]
        origin = {copy: node for node, copy in part.copies.items()}
        self._parts.append(Part(part.module(), infos, origin))

    def finish(self) -> Cut:
        around = self._around
        around.copies |= self._results
        around.graph.output(fx.map_arg(self._output.args[0], around.value))
        around.graph.output_node().meta = dict(self._output.meta)
        return Cut(around.module(**{part_name(i): None for i in range(len(self._parts))}), self._parts)

    def _call(self, sources: Sequence[fx.Node], results: Sequence[fx.Node]) -> None:
        around = self._around
        call = around.graph.call_module(part_name(len(self._parts)), tuple(map(around.value, sources)))
        for index, result in enumerate(results):
            item = around.graph.call_function(operator.getitem, (call, index))
            item.meta = dict(result.meta)
            around.copies[result] = self._results[result] = item

    def _find_crossing(self) -> list[fx.Node]:
        """The results of calls that are read in another stage, or that are outputs, in the order of the graph."""
        found = set(self._returned)
        for call in self._reads.calls:
            stage = self._stages.of(call)
            found |= {result for result in self._reads.read_by(call) if self._stages.of(result) != stage}
        return [node for node in self._gm.graph.nodes if node in found]

    def _sources(self, calls: Sequence[fx.Node], members: Collection[fx.Node]) -> list[fx.Node]:
        """What a part of these calls gets: values from elsewhere, and numbers for the symbols of its sizes."""
        found: dict[fx.Node, None] = {}
        seen: set[fx.Node] = set()
        pending = list(reversed(calls))
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if self._is_source(node, members):
                found[node] = None
            else:
                pending += map(self._reads.same_value, reversed(node.all_input_nodes))
        needed = {symbol for node in seen for number in _numbers(node) for symbol in number.free_symbols}
        symbols = sorted(needed.difference(*map(_said_by, found)), key=str)
        return list(found | {self._reads.symbols[s]: None for s in symbols if s in self._reads.symbols})

    def _is_source(self, node: fx.Node, members: Collection[fx.Node]) -> bool:
        if node in members or node.op != "call_function":
            return node.op == "placeholder"
        is_definition = self._reads.symbols.get(_expression(node)) is node
        return is_definition or not (self._reads.is_made_where_read(node) or call_of(node) in members)

    def _updated(self, calls: Sequence[fx.Node], crossing: Collection[fx.Node]) -> dict[fx.Node, fx.Node]:
        """Crossing results that stand in an input when these calls have run, and the input, which is read instead."""
        found: dict[fx.Node, fx.Node] = {}
        for call in filter(is_copy, calls):
            written, value = (self._reads.same_value(operand) for operand in call.args[:2])  # type: ignore[arg-type]
            is_equal = is_same(written.meta.get("val"), value.meta.get("val"))
            if value in crossing and is_equal and self._reads.is_written_once(written):
                found[value] = written
        return found


def _expression(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return value.node.expr if isinstance(value, torch.SymInt) else None


def _said_by(node: fx.Node) -> list[Any]:
    """The numbers that whoever has the value of a node knows."""
    value = node.meta.get("val")
    return expressions(value.size() if isinstance(value, torch.Tensor) else [value])


def _numbers(node: fx.Node) -> list[Any]:
    """Symbolic sizes, strides and offsets of the tensors of a node, and integers, as expressions."""
    numbers: list[Any] = []
    for value in pytree.tree_leaves(node.meta.get("val")):
        if is_strided(value):
            numbers += expressions((*value.size(), *value.stride(), value.storage_offset()))
        elif isinstance(value, torch.SymInt):
            numbers += expressions([value])
    return [number for number in numbers if not isinstance(number, int)]


def _eager_call(node: fx.Node) -> Callable[..., Any]:
    """A function that calls the operator of ``node``, as a graph between graphs of GE has to call it."""
    if is_of_user(node.target):
        return _checked(node)
    return _in_promised_strides(node) if makes_tensors(node) else node.target  # type: ignore[return-value]


def _in_promised_strides(node: fx.Node) -> Callable[..., Any]:
    operator: Any = node.target
    values = pytree.tree_leaves(node.meta.get("val"))
    promised = [_Result(value) if isinstance(value, torch.Tensor) else None for value in values]

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten(operator(*args, **kwargs))
        laid_out = [made if p is None else p.laid_out(made) for p, made in zip(promised, leaves, strict=True)]
        return pytree.tree_unflatten(laid_out, spec)

    return functools.update_wrapper(call, operator, assigned=("__name__",), updated=())


def _checked(node: fx.Node) -> Callable[..., Any]:
    """A function that calls the operator of ``node``. Results of other strides are copied. Raises ``RuntimeError`` for
    results that differ from those of the Meta function in number, sizes, type or device."""
    operator: Any = node.target
    name = core_name(operator)
    line = source_line(node)
    place = f"in {name} ({line})" if line else f"in {name}"
    results = [_Result(value) for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            made = operator(*args, **kwargs)
            if not results:
                return made
            leaves, spec = pytree.tree_flatten(made)
            if len(leaves) != len(results):
                raise RuntimeError(f"operator {name} returned {len(leaves)} results where {len(results)} were promised")
            return pytree.tree_unflatten([r.checked(name, x) for r, x in zip(results, leaves, strict=True)], spec)
        except Exception as error:
            add_note(error, "torchair", place=place)
            raise

    return functools.update_wrapper(call, operator, assigned=("__name__",), updated=())


class _Result:
    """What the Meta function says of a result; None for what only a run knows."""

    def __init__(self, value: torch.Tensor) -> None:
        self._dtype, self._device = value.dtype, value.device.type
        self._sizes = [constant(size) for size in value.size()]
        self._strides = [constant(stride) for stride in value.stride()]
        self._order = memory_order(value) if value.layout is torch.strided else None

    def checked(self, name: str, made: Any) -> torch.Tensor:
        """The result in the strides that were promised."""
        if not isinstance(made, torch.Tensor):
            raise RuntimeError(f"operator {name} returned {type(made).__name__} where a tensor was promised")
        if (made.dtype, made.device.type) != (self._dtype, self._device):
            raise RuntimeError(
                f"operator {name} returned {made.dtype} on {made.device.type} where {self._dtype} on {self._device} "
                "was promised"
            )
        sizes = list(made.size())
        if len(sizes) != len(self._sizes) or any(
            said not in (None, size) for size, said in zip(sizes, self._sizes, strict=True)
        ):
            raise RuntimeError(
                f"operator {name} returned sizes {sizes} where the program needs {self._text_of_sizes()}"
            )
        return self.laid_out(made)

    def laid_out(self, made: torch.Tensor) -> torch.Tensor:
        """The result, or a copy of it, in the strides that were promised, if these are known."""
        if self._order is not None:
            turned = made.permute(self._order)
            back = [self._order.index(dim) for dim in range(len(self._order))]
            return made if turned.is_contiguous() else turned.contiguous().permute(back)
        if None in self._strides or list(made.stride()) == self._strides:
            return made
        return torch.empty_strided(made.size(), self._strides, dtype=made.dtype, device=made.device).copy_(made)

    def _text_of_sizes(self) -> list[Any]:
        return ["any" if size is None else size for size in self._sizes]
