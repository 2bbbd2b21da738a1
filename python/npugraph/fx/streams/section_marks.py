# SPDX-License-Identifier: Apache-2.0
"""Sections of a C++ graph -> marks, the inverse of ``sections.py``: scopes of streams and limits around the nodes, and
events where a section waits for another one.

An event is recorded behind the last node of its section. In the graph, that node stands in front of everything that
waits for the section and of everything that follows in its stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from npugraph.fx.streams.stream_marks import LABEL, LIMITS, MAIN, marks

Scope = tuple[tuple[str, ...], tuple[str, ...]]  # keys and values
_ONLY = [(0, [], 0, 0)]  # the sections of a graph without streams and limits


class SectionMarks:
    """Writes marks into ``to`` while the nodes are written. ``core`` is the C++ graph. ``streams`` are the attributes
    of the streams' scopes by number, as ``mark_sections`` returns them."""

    def __init__(self, core: Any, nodes: Sequence[dict[str, Any]], streams: Sequence[Mapping[str, str]], to: fx.Graph):
        self.sections = core.sections()
        self.streams = streams
        self.to = to
        self.last = {node["section"]: node for node in nodes if not node["is_view"]}
        self.awaited = {other for section in range(len(self.sections)) for other in self._waits_of(section)}
        self.latest: dict[int, int] = {}  # by stream: its latest section
        self.opened: set[int] = set()
        self.recorded: set[int] = set()
        self.waits: set[tuple[str, int]] = set()
        self.scopes: list[Scope] = []
        marks()  # declares their side effects, so that they are not dead code

    def before(self, described: Mapping[str, Any]) -> None:
        """Writes the marks in front of a node. A view has no task. If its section is over or has not begun, the view
        stays in the scopes where it is."""
        if self.sections == _ONLY:
            return
        section = described["section"]
        if not described["is_view"]:
            self._open(section)
        elif self.latest.get(self.sections[section][0]) != section or section in self.recorded:
            return
        self._enter(section)

    def behind(self, described: Mapping[str, Any]) -> None:
        section = described["section"]
        if described is self.last.get(section) and section in self.awaited:
            self._record(section)

    def end(self) -> None:
        """Writes the marks behind all nodes. They join the streams in the last section."""
        if self.sections == _ONLY:
            return
        for section in range(len(self.sections)):
            self._open(section)
        self._switch([])

    def _open(self, section: int) -> None:
        if section in self.opened:
            return
        self.opened.add(section)
        stream = self.sections[section][0]
        for earlier in range(section):
            if self.sections[earlier][0] == stream:
                self._open(earlier)
        self.latest[stream] = section
        for other in self._waits_of(section):
            self._open(other)  # if no node has opened it
            self._wait(self._label(stream), other)
        if section not in self.last and section in self.awaited:
            self._record(section)

    def _waits_of(self, section: int) -> list[int]:
        """The sections of other streams that ``section`` comes after."""
        stream, after, *_ = self.sections[section]
        return [other for other in after if self.sections[other][0] != stream]

    def _wait(self, label: str, other: int) -> None:
        if (label, other) not in self.waits:
            self.waits.add((label, other))
            self._add("tagged_event_wait_on_stream", f"event_{other}", label)

    def _record(self, section: int) -> None:
        self.recorded.add(section)
        self._add("tagged_event_record_on_stream", f"event_{section}", self._label(self.sections[section][0]))

    def _enter(self, section: int) -> None:
        stream, _, *limits = self.sections[section]
        scopes: list[Scope] = []
        if stream != 0:
            attributes = self._attributes(stream)
            scopes.append((tuple(attributes), tuple(attributes.values())))
        if any(limits):
            given = {key: str(limit) for key, limit in zip(LIMITS, limits, strict=True) if limit}
            scopes.append((tuple(given), tuple(given.values())))
        self._switch(scopes)

    def _switch(self, scopes: list[Scope]) -> None:
        common = next(
            (i for i, (a, b) in enumerate(zip(self.scopes, scopes, strict=False)) if a != b),
            min(len(self.scopes), len(scopes)),
        )
        for _ in self.scopes[common:]:
            self._add("scope_exit")
        for keys, values in scopes[common:]:
            self._add("scope_enter", list(keys), list(values))
        self.scopes = scopes

    def _label(self, stream: int) -> str:
        return self._attributes(stream)[LABEL]

    def _attributes(self, stream: int) -> Mapping[str, str]:
        if stream < len(self.streams):
            return self.streams[stream]
        return {LABEL: f"stream_{stream}" if stream else MAIN}

    def _add(self, name: str, *args: Any) -> None:
        # The names are those that tracing gives, so that tables of what a pass changed do not list these nodes.
        self.to.create_node("call_function", getattr(torch.ops.npugraph_ex, name).default, args, name=name)
