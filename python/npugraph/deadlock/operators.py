# SPDX-License-Identifier: Apache-2.0
"""Finds the events of a trace that matter: collectives, which keep their cores until their peers have come, and events
that order streams.

In our own captures (``npugraph.debug.captures``), ``args`` have ``task``, ``waits`` (tasks of other streams) and the
``limits`` in force. In other traces, ``args`` of records and waits have ``event_id``. ``args`` of kernels have ``aiv``
(their vector cores), or ``block_num``, ``task_type`` (AIVEC, AICORE, MIX_AIC, MIX_AIV) and ``mix_ratio`` ("1:2", of
cube to vector cores).
"""

from __future__ import annotations

import re
from typing import Any

from npugraph.deadlock.trace_file import Event, TraceError

VECTOR_CORES = 48  # of the device that torch_npu shows
FINISH = "npugraph.wait"  # ends a collective that another task began; on a device the collective lasts until then

_EVENT = re.compile(r"(event|mem(ory)?)[ _]?(write[ _]|value[ _])*(record|wait)", re.IGNORECASE)


def is_collective(event: Event) -> bool:
    name = event["name"].lower()
    if name == FINISH:
        return False
    is_named = name.startswith(("aiv_", "hccl_aiv")) or "dispatch" in name or "combine" in name
    return is_named or event.get("cat") == "collective" or "c10d" in name


def is_record(event: Event) -> bool:
    return _kind(event) == "record"


def is_wait(event: Event) -> bool:
    return _kind(event) == "wait"


def _kind(event: Event) -> str | None:
    found = _EVENT.search(event["name"])
    return found[4].lower() if found else None


def event_id(event: Event) -> Any:
    """The event that a record or a wait is about. Raises ``TraceError`` if nothing says so."""
    arguments = event.get("args", {})
    for key in ("event_id", "event", "eventId"):
        if key in arguments:
            return str(arguments[key])
    raise TraceError(f"{event['name']} of stream {event['tid']} does not say which event: its args have no event_id")


def vector_cores(event: Event, total: int) -> int:
    """The vector cores that a collective keeps, of ``total``. For our own tasks this is their limit, or ``total``
    without one. Raises ``TraceError`` if nothing says so."""
    arguments = event.get("args", {})
    if "limits" in arguments:
        return dict(arguments["limits"]).get("vector_core_num", total)
    if "aiv" in arguments:
        return int(arguments["aiv"])
    if "block_num" not in arguments:
        raise TraceError(
            f"{event['name']} of stream {event['tid']} does not say how many vector cores it takes: its args have none "
            "of limits, aiv and block_num"
        )
    blocks, type_ = int(arguments["block_num"]), str(arguments.get("task_type", "AIVEC")).upper()
    if type_.startswith("MIX"):
        cube, vector = (int(part) for part in str(arguments.get("mix_ratio", "1:2")).split(":"))
        # Blocks of MIX_AIC are counted in cube cores, those of MIX_AIV in vector cores.
        return blocks if type_ == "MIX_AIV" else -(-blocks * vector // max(cube, 1))
    return 0 if type_ in ("AICORE", "AIC", "AI_CORE") else blocks


def filtered(events: list[Event]) -> list[Event]:
    """The events that the check needs: collectives, records, waits, and tasks that wait for others or that others wait
    for, in the order of the trace."""
    awaited = {task for event in events for task in event.get("args", {}).get("waits", ())}
    return [event for event in events if is_collective(event) or orders_streams(event, awaited)]


def orders_streams(event: Event, awaited: set[Any]) -> bool:
    """Whether an event orders streams. ``awaited`` are the tasks that others wait for."""
    arguments = event.get("args", {})
    return _kind(event) is not None or bool(arguments.get("waits")) or arguments.get("task") in awaited
