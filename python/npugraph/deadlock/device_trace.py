# SPDX-License-Identifier: Apache-2.0
"""The trace of a captured graph as a device with streams would run it.

A replay on this host orders more than the program does: collectives begin one after the other, and random operators
keep their order across streams. The trace therefore has the order of the graph. Events between streams appear as
records and waits where the program has them. Collectives of one group follow each other, because they run in the stream
of its communicator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from torch import fx

from npugraph.deadlock.operators import FINISH
from npugraph.deadlock.trace_file import Event
from npugraph.debug.captures import chrome_trace
from npugraph.fx.streams.stream_marks import LABEL, MAIN, is_mark


def device_trace(artifact: Any, records: Sequence[Any]) -> dict[str, Any]:
    """The Chrome trace of the launches of one run."""
    trace = chrome_trace(artifact, records)
    streams = {attributes[LABEL]: number for number, attributes in enumerate(artifact._streams)}
    writer = _Writer(trace["traceEvents"], streams or {MAIN: 0})
    for node in artifact.to_fx().graph.nodes:
        if node.op == "call_function":
            writer.visit(node)
    return trace | {"traceEvents": writer.result()}


class _Writer:
    def __init__(self, events: list[Event], streams: dict[str, int]) -> None:
        self.head = [event for event in events if event["ph"] != "X"]
        self.left = {id(event): event for event in events if event["ph"] == "X"}
        self.by_origin: dict[str, list[Event]] = defaultdict(list)
        for event in self.left.values():
            event["args"]["waits"] = []
            for origin in event["args"]["origin"].split(", "):
                self.by_origin[origin].append(event)
        self.streams = streams
        self.written: list[Event] = []
        self.now: dict[int, float] = defaultdict(float)  # by stream: the end of its last event
        self.communicators: dict[str, tuple[int, int]] = {}  # by group: number and stream of its last collective

    def visit(self, node: fx.Node) -> None:
        if is_mark(node):
            name = node.target._schema.name.removeprefix("npugraph_ex::")
            if name in ("tagged_event_record_on_stream", "tagged_event_wait_on_stream"):
                kind = "EVENT_RECORD" if "record" in name else "EVENT_WAIT"
                self._mark(kind, self.streams[node.args[1]], node.args[0])
            return
        for event in self.by_origin[node.meta.get("origin", node.name)]:
            if self.left.pop(id(event), None) is not None:
                self._write(event, node)

    def result(self) -> list[Event]:
        return [*self.head, *sorted([*self.written, *self.left.values()], key=lambda event: event["ts"])]

    def _write(self, event: Event, node: fx.Node) -> None:
        if event["name"] == FINISH:
            self.written.append(event)
            return
        stream = event["tid"]
        group = _group(node) if event["cat"] == "collective" else None
        number, last = self.communicators.get(group, (0, stream))
        if last != stream:
            self._mark("EVENT_WAIT", stream, f"{group} {number}")
        self.written.append(event)
        self.now[stream] = max(self.now[stream], event["ts"] + event["dur"])
        if group is not None:
            self.communicators[group] = number + 1, stream
            self._mark("EVENT_RECORD", stream, f"{group} {number + 1}")

    def _mark(self, kind: str, stream: int, event: str) -> None:
        self.written.append(
            {
                "name": kind,
                "cat": "event",
                "ph": "X",
                "pid": self.head[0]["pid"],
                "tid": stream,
                "ts": self.now[stream],
                "dur": 0.0,
                "args": {"event_id": event},
            }
        )


def _group(node: fx.Node) -> str | None:
    names = [argument.name for argument in node.target._schema.arguments]
    return node.args[names.index("group")] if "group" in names else None
