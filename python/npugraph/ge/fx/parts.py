# SPDX-License-Identifier: Apache-2.0
"""Cuts a graph into graphs for GE, and the graph around them, which has the eager calls and calls the others."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.fx.translate.importer import InputInfo
from npugraph.fx.values import attribute, expressions, is_same, is_strided
from npugraph.ge.fx.eager_calls import eager_call
from npugraph.ge.fx.stages import Reads, Stages, is_copy
from npugraph.ge.fx.values import call_of


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
            copy.target = eager_call(call)

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
