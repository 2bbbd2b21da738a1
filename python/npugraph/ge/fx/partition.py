# SPDX-License-Identifier: Apache-2.0
"""FX graph -> graphs of GE, with operators that cannot be converted running eagerly between them. Before the cut, sizes
become functions of symbols, and new tensors become calls that need no other tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
import torch
from torch import fx
from torch.fx.graph import _BoxedCodeGen
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from npugraph.fx.nodes import add_call
from npugraph.fx.schema import arguments_by_name
from npugraph.fx.translate.importer import InputInfo
from npugraph.fx.values import evaluate, is_row_major, is_strided
from npugraph.ge.converters import Missing, MissingConverters
from npugraph.ge.converters.registry import is_call
from npugraph.ge.fx.graph import Built
from npugraph.ge.fx.parts import Cut, Part, cut
from npugraph.ge.fx.stages import QUERIES, Reads, Stages
from npugraph.ge.fx.values import call_of, refusal

aten = torch.ops.aten

OPTION = "debug.missing_converters"
_BY_THE_HOST = "The host reads and makes them."

# Converts a functional graph, with a name and a description of its placeholders. Raises ``MissingConverters``.
Build = Callable[[fx.GraphModule, str, Sequence[InputInfo]], Built]


class ConvertedPart(NamedTuple):
    """A graph of GE that was made of some operators of a graph."""

    built: Built
    part: Part

    def node_of(self, operator: str) -> fx.Node | None:
        """The node of the whole graph that an operator of the graph of GE was made for, by its name."""
        node = self.built.origins.get(operator)
        return None if node is None else self.part.origin.get(node)


@dataclasses.dataclass(frozen=True)
class Partition:
    """A graph of which some operators run eagerly. ``gm`` is the whole graph; it calls ``parts[i]`` as its attribute
    ``part_name(i)``, which has to be set to a function of the inputs of that graph that returns a list. ``report`` is a
    warning that names all operators that run eagerly."""

    gm: fx.GraphModule
    parts: list[ConvertedPart]
    report: str


def convert(
    gm: fx.GraphModule,
    inputs: Sequence[InputInfo],
    names: Iterator[str],
    build: Build,
    *,
    in_parts: bool = True,
    boxed: bool = False,
    refused: Mapping[fx.Node, str] | None = None,
) -> Built | Partition:
    """Converts a functional graph of operators whose placeholders ``inputs`` describe. Without operators that cannot
    be converted it becomes one graph of GE. Otherwise only those run eagerly, and the others are as few graphs of GE as
    possible; a graph that may not be ``in_parts`` raises ``MissingConverters`` instead. Nodes that are ``refused``,
    with reasons, count as such operators. The graphs take their names from ``names``. The graph of a ``Partition``
    takes its inputs one by one, or with ``boxed`` as a list, which it empties."""
    name = next(names)
    try:
        if refused:
            raise MissingConverters(name, [Missing(*entry) for entry in refused.items()])
        return build(gm, name, inputs)
    except MissingConverters as error:
        if not in_parts:
            raise
        missing = error.missing
    partition = _Partitioner(gm, inputs, [name], names, build).run(missing)
    if boxed:
        partition.gm.graph.set_codegen(_BoxedCodeGen())
        partition.gm.recompile()
    return partition


class _Partitioner:
    def __init__(
        self, gm: fx.GraphModule, inputs: Sequence[InputInfo], drawn: list[str], names: Iterator[str], build: Build
    ) -> None:
        self._gm, self._inputs, self._build = gm, inputs, build
        self._drawn, self._names = drawn, names
        _make_of_sizes(gm.graph)
        self._symbols = _define_symbols(gm.graph)
        _compute_sizes(gm.graph, self._symbols)
        self._refused: dict[fx.Node, str] = {}  # with the reason

    def run(self, missing: Sequence[Missing]) -> Partition:
        calls = {node for node in self._gm.graph.nodes if node.op == "call_function"}
        self._refused = {entry.node: entry.reason for entry in missing if entry.node in calls}
        ends = [entry for entry in missing if not is_call(entry)]
        while True:
            reads = self._reads()
            stages = Stages(reads, self._refused)
            divided = cut(self._gm, self._inputs, reads, stages)
            parts = self._converted(divided)
            if parts is not None:
                report = self._report(ends, stages, len(parts))
                return Partition(divided.around, list(map(ConvertedPart, parts, divided.parts)), report)

    def _reads(self) -> Reads:
        """Refuses the readers of values that GE does not have, too."""
        reads = Reads(self._gm.graph, self._symbols, self._refused)
        for call in reads.calls:
            if call not in self._refused and (reason := _refusal_of_operands(reads, call)):
                self._refused[call] = reason
        return reads

    def _converted(self, divided: Cut) -> list[Built] | None:
        """The graphs of GE. None if some of the parts cannot be converted either; ``_refused`` has grown then."""
        parts: list[Built] = []
        for part in divided.parts:
            if len(self._drawn) == len(parts):
                self._drawn.append(next(self._names))
            try:
                parts.append(self._build(part.gm, self._drawn[len(parts)], part.inputs))
            except MissingConverters as error:
                more = dict(_refused_of(part, error))
                if not more:
                    raise
                self._refused |= more
                return None
        return parts

    def _report(self, ends: Sequence[Missing], stages: Stages, num_parts: int) -> str:
        """``ends`` are inputs and outputs that the whole graph cannot have."""
        nodes = [node for node in self._gm.graph.nodes if node in self._refused]
        error = MissingConverters(self._drawn[0], [*(Missing(node, self._refused[node]) for node in nodes), *ends])
        eager = sum(not self._refused.keys().isdisjoint(stage.calls) for stage in stages.in_order())
        where = f"They run eagerly, in {eager} part{'' if eager == 1 else 's'} of the graph." if nodes else _BY_THE_HOST
        graphs = ", ".join(self._drawn[:num_parts]) or "none"
        return (
            f"{error}\n{where} Graphs of GE for the rest: {graphs}. With option {OPTION}='error' of "
            "torchair.CompilerConfig this is an error."
        )


def _refusal_of_operands(reads: Reads, node: fx.Node) -> str:
    """Why a graph of GE cannot have the operands of a node, "" if it can."""
    for operand in node.all_input_nodes:
        reason = refusal(operand.meta.get("val"))
        if not reason and reads.is_made_where_read(operand):
            reason = _refusal_of_operands(reads, operand)
        if reason:
            return reason
    return ""


def _refused_of(part: Part, error: MissingConverters) -> Iterator[tuple[fx.Node, str]]:
    """The nodes of the whole graph that have to run eagerly so that a part can be converted."""
    for node, reason in error.missing:
        if node.op == "call_function":
            yield part.origin[node], reason
        for reader in node.users if node.op == "placeholder" else ():
            yield part.origin[reader], reason
        for result in node.all_input_nodes if node.op == "output" else ():
            yield call_of(part.origin[result]), reason


# What the new tensor is filled with.
_OF_SIZES = {aten.new_zeros.default: 0, aten.new_ones.default: 1, aten.new_full.default: None}
_LIKE = {aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.full_like.default: None}


def _make_of_sizes(graph: fx.Graph) -> None:
    """Replaces ``new_zeros``, ``zeros_like`` and the like by ``full``, in place, where sizes are known or arguments.
    Nothing then has to be computed before them, and they can be made wherever they are read."""
    for node in list(graph.nodes):
        sizes = _sizes_of(node)
        if sizes is None:
            continue
        fill = _OF_SIZES.get(node.target, _LIKE.get(node.target))
        if fill is None:
            fill = arguments_by_name(node.target, node.args, node.kwargs)["fill_value"]
        value = node.meta["val"]
        with graph.inserting_before(node):
            made = graph.call_function(aten.full.default, (sizes, fill), {"dtype": value.dtype, "device": value.device})
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _sizes_of(node: fx.Node) -> Sequence[Any] | None:
    """The sizes of the tensor as arguments of a call. None for a node that stays as it is."""
    value = node.meta.get("val")
    if not is_strided(value):
        return None
    if node.target in _OF_SIZES:
        return node.args[1]  # type: ignore[return-value]
    is_known = all(isinstance(size, int) for size in value.size()) and is_row_major(value)
    return list(value.size()) if node.target in _LIKE and is_known else None


def _define_symbols(graph: fx.Graph) -> dict[sympy.Symbol, fx.Node]:
    """Returns for each symbol the first node that has its value. Adds one for a symbol that is only a size."""
    found: dict[sympy.Symbol, fx.Node] = {}
    sizes: dict[sympy.Symbol, tuple[fx.Node, int]] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            found.setdefault(value.node.expr, node)
        for dim, size in enumerate(value.size() if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                sizes.setdefault(size.node.expr, (node, dim))
    behind_inputs = next(node for node in graph.nodes if node.op != "placeholder")
    for symbol, (node, dim) in sizes.items():
        if symbol not in found:
            with graph.inserting_before(behind_inputs if node.op == "placeholder" else node.next):
                found[symbol] = add_call(graph, node, aten.sym_size.int, node, dim)
    return found


def _compute_sizes(graph: fx.Graph, symbols: dict[sympy.Symbol, fx.Node]) -> None:
    """Lets sizes of tensors follow from symbols, in place: nothing then needs a tensor for its sizes alone."""
    tracer = fx.proxy.GraphAppendingTracer(graph)
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.target not in QUERIES or not isinstance(value, torch.SymInt) or value.node.expr.is_Symbol:
            continue
        names = value.node.expr.free_symbols
        if not names or not names <= symbols.keys():
            continue
        before = node.prev
        with graph.inserting_before(node):
            proxies = {name: fx.Proxy(symbols[name], tracer) for name in names}
            made = sympy_interp(PythonReferenceAnalysis, proxies, value.node.expr).node
        while (before := before.next) is not node:
            before.meta["val"] = evaluate(before)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
