# SPDX-License-Identifier: Apache-2.0
"""The order of the events of a trace, whatever their times, by vector clocks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from npugraph.deadlock.operators import event_id, is_record, is_wait
from npugraph.deadlock.trace_file import Event


class Order:
    """Events of one stream follow each other. A wait comes after the record of its event, and a task comes after the
    tasks that it waits for. ``circle`` has the events that wait for each other and so never begin. The order of these,
    and of events after them, is not known. ``sequence`` has all other events in an order that agrees with these rules.
    """

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.place: list[int] = []  # by event: its place in its stream, from 1
        self.clock: list[dict[Any, int]] = [{} for _ in events]  # by event: how many events of each stream come before
        self.unrecorded: list[int] = []  # waits whose event nothing in the trace records
        self.before = self._edges()  # by event: events that have to end first; others follow from these
        self.sequence, self.circle = self._spread(self.before)

    def precedes(self, a: int, b: int) -> bool:
        return a != b and self.clock[b].get(self.events[a]["tid"], 0) >= self.place[a]

    def is_ordered(self, a: int, b: int) -> bool:
        return self.precedes(a, b) or self.precedes(b, a)

    def _edges(self) -> list[list[int]]:
        before: list[list[int]] = []
        last: dict[Any, int] = {}
        count: dict[Any, int] = defaultdict(int)
        records: dict[Any, list[int]] = defaultdict(list)
        tasks = {event["args"]["task"]: i for i, event in enumerate(self.events) if "task" in event.get("args", {})}
        for i, event in enumerate(self.events):
            if is_record(event):
                records[event_id(event)].append(i)
        waits: dict[Any, int] = defaultdict(int)
        for i, event in enumerate(self.events):
            stream = event["tid"]
            edges = [last[stream]] if stream in last else []
            edges += [tasks[task] for task in event.get("args", {}).get("waits", ()) if task in tasks]
            if is_wait(event):
                edges += self._record_of(i, records[event_id(event)], waits)
            last[stream] = i
            count[stream] += 1
            self.place.append(count[stream])
            before.append(edges)
        return before

    def _record_of(self, wait: int, records: list[int], waits: dict[Any, int]) -> list[int]:
        """The record that a wait is for: the n-th wait of a stream for an event is for its n-th record, or for the last
        one."""
        if not records:
            self.unrecorded.append(wait)
            return []
        key = event_id(self.events[wait]), self.events[wait]["tid"]
        nth, waits[key] = waits[key], waits[key] + 1
        return [records[min(nth, len(records) - 1)]]

    def _spread(self, before: list[list[int]]) -> tuple[list[int], list[int]]:
        after: list[list[int]] = [[] for _ in before]
        missing = [len(edges) for edges in before]
        for i, edges in enumerate(before):
            for j in edges:
                after[j].append(i)
        ready = [i for i, count in enumerate(missing) if count == 0]
        for i in ready:  # the list grows meanwhile
            for j in before[i]:
                for stream, count in self.clock[j].items():
                    self.clock[i][stream] = max(self.clock[i].get(stream, 0), count)
                stream = self.events[j]["tid"]
                self.clock[i][stream] = max(self.clock[i].get(stream, 0), self.place[j])
            for j in after[i]:
                missing[j] -= 1
                if missing[j] == 0:
                    ready.append(j)
        return ready, _in_circles(before, {i for i, count in enumerate(missing) if count > 0})


def _in_circles(before: list[list[int]], left: set[int]) -> list[int]:
    """The events of ``left``, which never begin, that other events of it wait for. The events left out only come after
    these."""
    while True:
        needed = {j for i in left for j in before[i] if j in left}
        if needed == left:
            return sorted(left)
        left = needed
