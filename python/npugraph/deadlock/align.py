# SPDX-License-Identifier: Apache-2.0
"""Moves the events of a trace so that none begins before the events that it waits for have ended."""

from __future__ import annotations

from collections.abc import Iterator

from npugraph.deadlock.operators import is_collective, orders_streams
from npugraph.deadlock.order import Order
from npugraph.deadlock.trace_file import Event


def aligned(events: list[Event], merge_gap: float = 0.0) -> list[Event]:
    """The moved events, with times in microseconds. Neighbours on a stream that keep no cores and order nothing become
    one event if at most ``merge_gap`` lies between them. Events that wait for each other in a circle keep their times.
    """
    order = Order(events)
    begins = [float(event.get("ts", 0)) for event in events]
    for i in order.sequence:
        ends = [begins[j] + float(events[j].get("dur", 0)) for j in order.before[i]]
        begins[i] = max(begins[i], *ends) if ends else begins[i]
    moved = [event | {"ts": begin} for event, begin in zip(events, begins, strict=True)]
    moved.sort(key=lambda event: event["ts"])
    return sorted(_merged(moved, merge_gap), key=lambda event: event["ts"])


def _merged(events: list[Event], gap: float) -> Iterator[Event]:
    awaited = {task for event in events for task in event.get("args", {}).get("waits", ())}
    open_: dict[object, Event] = {}  # the last event of each stream
    for event in events:
        stream = event["tid"]
        last = open_.get(stream)
        plain = not is_collective(event) and not orders_streams(event, awaited)
        if last is not None and plain and last.get("count") and event["ts"] - _end(last) <= gap:
            names = [last["name"]] if last["name"] != event["name"] else []
            last["name"] = " + ".join([*names, event["name"]])
            last["dur"] = max(_end(last), _end(event)) - last["ts"]
            last["count"] += 1
            continue
        if last is not None:
            yield last
        open_[stream] = event | {"count": 1} if plain and gap > 0 else event
    yield from open_.values()


def _end(event: Event) -> float:
    return event["ts"] + float(event.get("dur", 0))
