# SPDX-License-Identifier: Apache-2.0
"""Marks of streams, events and core limits -> sections: stretches of one stream, each with the sections before it.

src/core/ir/graph.h defines sections. All streams begin with the graph and join at its end. Functionalisation puts the
copies back into inputs there, and they come after everything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from torch import fx

from npugraph.fx.schema import core_name
from npugraph.fx.streams.input_writes import epilogues as find_epilogues
from npugraph.fx.streams.input_writes import write_before_records
from npugraph.fx.streams.scopes import ScopeError, ScopeValueError, at, problem
from npugraph.fx.streams.stream_marks import LABEL, LIMITS, MAIN, STREAM, has_marks, is_mark, marks, records_for_program


@dataclasses.dataclass
class Section:
    stream: int
    after: set[int]
    limits: tuple[int, int]  # cube, vector; 0: none

    def as_tuple(self) -> tuple[int, list[int], int, int]:
        return self.stream, sorted(self.after), *self.limits


@dataclasses.dataclass
class Strands:
    """The sections of a graph, and the attributes of each stream's scopes, by number of the stream."""

    sections: list[Section]
    streams: list[dict[str, str]]


def mark_sections(gm: fx.GraphModule) -> Strands | None:
    """Gives the nodes of a graph with marks ``meta["section"]``, the number of one of the returned sections. Returns
    None if the graph has no marks, or marks without effect. Raises ``ScopeError`` if scopes do not pair, and
    ``ScopeValueError`` if a wait has nothing to wait for."""
    if not has_marks(gm.graph):
        return None
    if unpaired := problem(gm.graph):
        raise ScopeError(unpaired, first_useful_frame=None)
    write_before_records(gm.graph)
    return _Sections(gm.graph).assign()


@dataclasses.dataclass
class _Strand:
    number: int
    section: int | None = None  # the latest one
    is_open: bool = False
    waits: set[int] = dataclasses.field(default_factory=set)  # sections that the next section waits for

    def position(self) -> set[int]:
        """The sections that are over as soon as everything in the strand so far is over."""
        return self.waits | ({self.section} if self.section is not None else set())


class _Sections:
    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.sections = [Section(0, set(), (0, 0))]
        self.strands = {MAIN: _Strand(0, 0, True)}
        self.scopes: list[dict[str, str]] = []
        self.attributes: dict[str, dict[str, str]] = {}  # by label: the attributes of a stream's scopes
        self.events: dict[str, set[int]] = {}
        self.tokens: dict[fx.Node, set[int]] = {}
        self.awaited = {node for wait in self._nodes("wait") for node in wait.all_input_nodes}

    def _nodes(self, name: str) -> Iterable[fx.Node]:
        return (node for node in self.graph.nodes if is_mark(node) and marks()[node.target] == name)

    def assign(self) -> Strands | None:
        epilogues = find_epilogues(self.graph)
        for node in self.graph.nodes:
            if is_mark(node):
                self._read(node)
            elif node.op == "call_function" and node not in epilogues:
                self._place(node)
        is_plain = len(self.strands) == 1 and all(section.limits == (0, 0) for section in self.sections)
        if is_plain and not any(map(records_for_program, self.graph.nodes)):
            return None
        self._join(epilogues)
        return Strands(self.sections, [self.attributes.get(label, {LABEL: label}) for label in self.strands])

    def _place(self, node: fx.Node) -> None:
        strand = self._strand(self._current(LABEL) or MAIN)
        limits = (int(self._current(LIMITS[0]) or 0), int(self._current(LIMITS[1]) or 0))
        is_point = records_for_program(node)  # nothing moves across it
        if is_point or not strand.is_open or self.sections[strand.section].limits != limits:
            self._open(strand, limits)
        node.meta["section"] = strand.section
        if is_point or node in self.awaited:
            self.tokens[node] = strand.position()
            strand.is_open = False

    def _open(self, strand: _Strand, limits: tuple[int, int]) -> None:
        self.sections.append(Section(strand.number, strand.waits, limits))
        strand.section, strand.is_open, strand.waits = len(self.sections) - 1, True, set()

    def _join(self, epilogues: set[fx.Node]) -> None:
        everything = set().union(*(strand.position() for strand in self.strands.values()))
        main = self.strands[MAIN]
        main.waits |= everything
        self._open(main, (0, 0))
        for node in epilogues:
            node.meta["section"] = main.section

    def _current(self, key: str) -> str | None:
        return next((scope[key] for scope in reversed(self.scopes) if key in scope), None)

    def _strand(self, label: str) -> _Strand:
        return self.strands.setdefault(label, _Strand(len(self.strands)))

    def _read(self, node: fx.Node) -> None:
        read = _READERS.get(marks()[node.target])
        if read is not None:
            read(self, node, *node.args, **node.kwargs)

    def _enter(self, node: fx.Node, keys: list[str], values: list[str], need_execute: bool = False) -> None:
        scope = dict(zip(keys, values, strict=True))
        self.scopes.append(scope)
        if LABEL in scope:
            found = {key: value for key, value in scope.items() if key in STREAM}
            self.attributes.setdefault(scope[LABEL], {}).update(found)

    def _exit(self, node: fx.Node) -> None:
        self.scopes.pop()

    def _here(self) -> str:
        return self._current(LABEL) or MAIN

    def _point(self, label: str) -> set[int]:
        """Ends the section of a strand and returns the position of the strand."""
        strand = self._strand(label)
        strand.is_open = False
        return strand.position()

    def _await(self, label: str, sections: set[int]) -> None:
        strand = self._strand(label)
        strand.waits |= {index for index in sections if self.sections[index].stream != strand.number}
        strand.is_open = False

    def _record(self, node: fx.Node) -> None:
        self.tokens[node] = self._point(self._here())

    def _wait(self, node: fx.Node, tensors: list[fx.Node]) -> None:
        if not tensors:
            text = f"{core_name(node.target)}{at(node)}: got an empty list; give the tensors to wait for"
            raise ScopeValueError(text, first_useful_frame=None)
        for tensor in tensors:
            self._await(self._here(), self.tokens.get(tensor, set()))

    def _record_event(self, node: fx.Node, tag: str, created_inside: bool = True) -> None:
        self.events[tag] = self._point(self._here())

    def _wait_event(self, node: fx.Node, tag: str) -> None:
        self._wait_event_on(node, tag, self._here())

    def _record_event_on(self, node: fx.Node, tag: str, stream: str, created_inside: bool = True) -> None:
        self.events[tag] = self._point(stream)

    def _wait_event_on(self, node: fx.Node, tag: str, stream: str) -> None:
        if tag not in self.events:
            raise ScopeValueError(
                f"{core_name(node.target)}: nothing records the event {tag!r} before the wait{at(node)}; "
                f"recorded are {', '.join(map(repr, self.events)) or 'none'}",
                first_useful_frame=None,
            )
        self._await(stream, self.events[tag])

    def _wait_stream(self, node: fx.Node, stream: str, other: str) -> None:
        self._await(stream, self._point(other))


_READERS: dict[str, Callable[..., None]] = {
    "scope_enter": _Sections._enter,
    "scope_exit": _Sections._exit,
    "record": _Sections._record,
    "wait": _Sections._wait,
    "tagged_event_record": _Sections._record_event,
    "tagged_event_wait": _Sections._wait_event,
    "tagged_event_record_on_stream": _Sections._record_event_on,
    "tagged_event_wait_on_stream": _Sections._wait_event_on,
    "tagged_stream_wait_stream": _Sections._wait_stream,
}
