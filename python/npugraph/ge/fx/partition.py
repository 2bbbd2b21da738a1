# SPDX-License-Identifier: Apache-2.0
"""FX graph -> graphs of GE, with operators that cannot be converted running eagerly between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from torch import fx
from torch.fx.graph import _BoxedCodeGen

from npugraph.fx.translate.importer import InputInfo
from npugraph.ge.converters import Missing, MissingConverters
from npugraph.ge.converters.missing import is_call
from npugraph.ge.fx.graph import Built
from npugraph.ge.fx.new_tensors import make_of_sizes
from npugraph.ge.fx.parts import Cut, Part, cut
from npugraph.ge.fx.stages import Reads, Stages
from npugraph.ge.fx.symbols import compute_sizes, define_symbols
from npugraph.ge.fx.values import call_of, refusal
from npugraph.log import logger

OPTION = "debug.missing_converters"
_BY_THE_HOST = "The host reads and makes them."

# Converts a functional graph, with a name and a description of its placeholders. Raises ``MissingConverters``.
Build = Callable[[fx.GraphModule, str, Sequence[InputInfo]], Built]


@dataclasses.dataclass(frozen=True)
class Partition:
    """A graph of which some operators run eagerly. ``gm`` is the whole graph; it calls ``parts[i]`` as its attribute
    ``part_name(i)``, which has to be set to a function of the inputs of that graph that returns a list. ``inputs[i]``
    describes these inputs."""

    gm: fx.GraphModule
    parts: list[Built]
    inputs: list[list[InputInfo]]


def convert(
    gm: fx.GraphModule, inputs: Sequence[InputInfo], names: Iterator[str], build: Build, *, boxed: bool = False
) -> Built | Partition:
    """Converts a functional graph of operators whose placeholders ``inputs`` describe. Without operators that cannot
    be converted it becomes one graph of GE. Otherwise only those run eagerly, the others are as few graphs of GE as
    possible, and one warning of the log names them all. The graphs take their names from ``names``. The graph of a
    ``Partition`` takes its inputs one by one, or with ``boxed`` as a list, which it empties."""
    name = next(names)
    try:
        return build(gm, name, inputs)
    except MissingConverters as error:
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
        make_of_sizes(gm.graph)
        self._symbols = define_symbols(gm.graph)
        compute_sizes(gm.graph, self._symbols)
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
                self._report(ends, stages, len(parts))
                return Partition(divided.around, parts, [part.inputs for part in divided.parts])

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

    def _report(self, ends: Sequence[Missing], stages: Stages, num_parts: int) -> None:
        """Warns of the operators that run eagerly. ``ends`` are inputs and outputs that the whole graph cannot have."""
        nodes = [node for node in self._gm.graph.nodes if node in self._refused]
        error = MissingConverters(self._drawn[0], [*(Missing(node, self._refused[node]) for node in nodes), *ends])
        eager = sum(not self._refused.keys().isdisjoint(stage.calls) for stage in stages.in_order())
        where = f"They run eagerly, in {eager} part{'' if eager == 1 else 's'} of the graph." if nodes else _BY_THE_HOST
        graphs = ", ".join(self._drawn[:num_parts]) or "none"
        logger.warning(
            "%s\n%s Graphs of GE for the rest: %s. With option %s='error' of torchair.CompilerConfig this is an error.",
            *(str(error), where, graphs, OPTION),  # records of the log may live long, and an error has the graph
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
