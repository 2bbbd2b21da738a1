# SPDX-License-Identifier: Apache-2.0
"""The verdict about a trace, and its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npugraph.deadlock.conflicts import MOST, conflicts
from npugraph.deadlock.operators import filtered, is_collective, vector_cores
from npugraph.deadlock.order import Order
from npugraph.deadlock.trace_file import Event, read, write, write_json

FILTERED = "_filtered"
CHECKED = "_deadlock_check"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """``conflicts`` are sets of tasks of which no two are ordered, each with the vector cores that they need together.
    ``circle`` has the tasks that wait for each other. ``unrecorded`` has the waits for events that the trace does not
    record."""

    total: int
    conflicts: list[tuple[int, list[Event]]]
    circle: list[Event]
    unrecorded: list[Event]

    @property
    def is_risk(self) -> bool:
        return bool(self.conflicts or self.circle)

    def lines(self) -> list[str]:
        lines = []
        for cores, events in self.conflicts:
            lines.append(f"[CONFLICT] {' | '.join(map(_label, events))}: {cores} of {self.total} vector cores")
        if self.circle:
            lines.append(f"[CONFLICT] wait for each other: {' | '.join(map(_label, self.circle))}")
        lines += [
            f"[WARNING] {_label(event)} waits for an event that nothing here records" for event in self.unrecorded
        ]
        return [*lines, self._result()]

    def _result(self) -> str:
        if not self.is_risk:
            return "[RESULT] No deadlock risks detected."
        pairs = sum(len(events) == 2 for _, events in self.conflicts)
        text = f"[RESULT] Deadlock risk detected! {pairs} conflicting pair(s)"
        others = len(self.conflicts) - pairs
        if others:
            text += f", {others} conflicting set(s) of other sizes"
        if len(self.conflicts) == MOST:
            text += f", and maybe more: the first {MOST} are listed"
        return text + (", and a circle of waits" if self.circle else "")

    def as_json(self) -> dict[str, Any]:
        return {
            "vector_cores": self.total,
            "is_risk": self.is_risk,
            "conflicts": [{"vector_cores": cores, "tasks": events} for cores, events in self.conflicts],
            "circle": self.circle,
            "unrecorded": self.unrecorded,
        }


def _label(event: Event) -> str:
    source = event.get("args", {}).get("source")
    return f"{event['name']} (stream {event['tid']}{f', {source}' if source else ''})"


def check(events: list[Event], total: int) -> Verdict:
    """Checks a trace, filtered or not, for a device of ``total`` vector cores."""
    order = Order(filtered(events))
    found = [i for i in order.sequence if is_collective(order.events[i])]
    weights = [vector_cores(order.events[i], total) for i in found]

    def is_ordered(a: int, b: int) -> bool:
        return order.is_ordered(found[a], found[b])

    sets = [
        (sum(weights[i] for i in items), [order.events[found[i]] for i in items])
        for items in conflicts(weights, is_ordered, total)
    ]
    return Verdict(total, sets, [order.events[i] for i in order.circle], [order.events[i] for i in order.unrecorded])


def check_file(path: Path, total: int, tell: Callable[[str], None]) -> Verdict:
    """Checks the trace in a file. Writes the filtered trace (unless the file is one) and the verdict beside it, and
    tells the lines of the verdict."""
    events = read(path)
    kept = filtered(events)
    if not path.stem.endswith(FILTERED):
        path = path.with_name(f"{path.stem}{FILTERED}.json")
        write(path, kept)
    verdict = check(kept, total)
    write_json(path.with_name(f"{path.stem}{CHECKED}.json"), verdict.as_json())
    for line in verdict.lines():
        tell(line)
    return verdict
