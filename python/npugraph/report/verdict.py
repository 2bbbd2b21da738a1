# SPDX-License-Identifier: Apache-2.0
"""Tells what bounds a run from the facts of a page. All functions are pure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Task = Mapping[str, Any]

# A task that reaches less than this part of the machine's limits is bound by neither memory nor arithmetic.
FAR = 0.1
# The start and the end of a task take about this long. A task that takes no longer and computes little is just that.
START_NS = 5_000

# The kinds of time, in the order of the page.
KINDS = {
    "memory": "moving bytes",
    "arithmetic": "arithmetic",
    "caches": "tasks whose data is in the caches",
    "code": "tasks far from both limits",
    "waiting": "waiting",
    "host": "outside of tasks, and starting them",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """``bound`` is a key of KINDS, or "" if nothing was timed. ``parts`` divides the nanoseconds of the shortest run by
    kind. The rest of the machine disturbed that run least."""

    bound: str
    sentence: str
    parts: dict[str, float]


def verdict(
    tasks: Sequence[Task], runs: Sequence[Mapping[str, Any]], machine: Mapping[str, float], working_set: int
) -> Verdict:
    """Judges the shortest run. ``tasks`` and ``runs`` are those of an artifact, the shortest run first. Each task has
    the element ``type`` that it computes with. ``machine`` is the result of ``machine.limits``, and ``working_set`` the
    number of bytes that a run touches."""
    if not runs:
        return Verdict("", "No times yet: call it again with the same sizes.", {})
    run = runs[0]
    tasks = [{**task, "nanoseconds": length} for task, (_, length) in zip(tasks, run["tasks"], strict=True)]
    bounds = [_bound(task, machine, working_set) for task in tasks]
    parts = _parts(tasks, run, bounds)
    bound = max(parts, key=parts.__getitem__)
    share = parts[bound] / max(run["nanoseconds"], 1)
    own = [task for task, kind in zip(tasks, bounds, strict=True) if kind == bound]
    return Verdict(bound, _SENTENCES[bound](f"{share:.0%}".replace("%", " %"), own, machine), parts)


def at_least(machine: Mapping[str, float], tasks: Iterable[Task]) -> dict[str, float]:
    """Raises the limits of a ``machine`` to what ``tasks`` reached in their shortest runs. While others use the
    machine, a measurement finds less than it can do."""
    limits = dict(machine)
    for task in tasks:
        time = task["least_nanoseconds"]
        if not time:
            continue
        if task["bytes_read"] > 2 * machine["caches"]:  # so most of them came from memory
            moved = task["bytes_read"] + task["bytes_written"]
            limits["bytes"] = max(limits["bytes"], moved / time)
        limits[task["type"]] = max(limits[task["type"]], task["operations"] / time)
    return limits


def used(task: Task, machine: Mapping[str, float], working_set: int) -> tuple[float | None, float]:
    """The parts of the machine's memory traffic and of its arithmetic that a task reaches. The first one is None where
    the bytes may come from caches, and for a task that is too short to tell."""
    time = max(task["nanoseconds"], 1)
    memory = (task["bytes_read"] + task["bytes_written"]) / time / machine["bytes"]
    is_of_memory = working_set > machine["caches"] and time > START_NS and memory <= 1
    return memory if is_of_memory else None, task["operations"] / time / machine[task["type"]]


def _bound(task: Task, machine: Mapping[str, float], working_set: int) -> str:
    if task["kind"] == "collective":
        return "waiting"
    if task["kind"] == "python" or task.get("python"):
        return "host"
    memory, arithmetic = used(task, machine, working_set)
    if max(memory or 0, arithmetic) >= FAR:
        return "memory" if (memory or 0) >= arithmetic else "arithmetic"
    if task["nanoseconds"] <= START_NS:
        return "host"
    return "caches" if memory is None else "code"


def _parts(tasks: Sequence[Task], run: Mapping[str, Any], bounds: Sequence[str]) -> dict[str, float]:
    """Divides the time of a run by kind. At each moment, the streams that have tasks left share the time. A stream that
    runs a task gives its share to the kind of the task. A stream that runs none gives it to waiting, if its next task
    waits for one that has not ended, else to the host."""
    spans = [(begin, begin + length) for begin, length in run["tasks"]]
    streams: dict[int, list[int]] = {}
    for index in sorted(range(len(tasks)), key=lambda index: spans[index]):
        streams.setdefault(tasks[index]["stream"], []).append(index)
    moments = sorted({0, run["nanoseconds"], *(moment for span in spans for moment in span)})
    parts = dict.fromkeys(KINDS, 0.0)
    left = dict.fromkeys(streams, 0)  # by stream: the index of its first task that has not ended
    for begin, end in itertools.pairwise(moments):
        for stream, own in streams.items():
            while left[stream] < len(own) and spans[own[left[stream]]][1] <= begin:
                left[stream] += 1
        next_tasks = [own[left[stream]] for stream, own in streams.items() if left[stream] < len(own)]
        kinds = [_kind_at(begin, index, tasks, spans, bounds) for index in next_tasks] or ["host"]
        for kind in kinds:
            parts[kind] += (end - begin) / len(kinds)
    return parts


def _kind_at(
    moment: int, index: int, tasks: Sequence[Task], spans: Sequence[tuple[int, int]], bounds: Sequence[str]
) -> str:
    """The key of KINDS for what a stream does at a moment. ``index`` is the task that it runs, or will run next."""
    if spans[index][0] <= moment:
        return bounds[index]
    waits = any(spans[other][1] > moment for other in tasks[index]["waits"])
    return "waiting" if waits else "host"


def _memory(share: str, own: Iterable[Task], machine: Mapping[str, float]) -> str:
    moved, _, time = _sums(own)
    return (
        f"Memory bounds this model: {share} of a run moves bytes, at {moved / time:.1f} GB/s where memory gives "
        f"{machine['bytes']:.1f}. Fewer bytes help: weights of fewer bits, more rows for the same weights, or fewer "
        "operators left apart (below, under Fusion)."
    )


def _arithmetic(share: str, own: Iterable[Task], machine: Mapping[str, float]) -> str:
    _, operations, time = _sums(own)
    most = max(machine[task["type"]] for task in own)
    faster = machine["bf16"] > 1.3 * machine["f32"] and any(task["type"] == "f32" for task in own)
    return (
        f"Arithmetic bounds this model: {share} of a run computes, at {operations / time:.0f} GFLOP/s where products "
        f"come to {most:.0f}. Less work or more cores help"
        + (f"; bfloat16 computes {machine['bf16'] / machine['f32']:.1f} times as fast here." if faster else ".")
    )


def _caches(share: str, own: Iterable[Task], machine: Mapping[str, float]) -> str:
    slowest = max(own, key=lambda task: task["nanoseconds"])
    reason = f", which is not generated code: {slowest['reason']}" if slowest["reason"] else ""
    return (
        f"Memory does not bound this model: {share} of a run are tasks whose data fits the caches "
        f"({machine['caches'] / 2**20:.0f} MiB), most of all {slowest['name']}{reason}. More work in each call helps, "
        "or fewer operators left apart (below, under Fusion)."
    )


def _host(share: str, own: Iterable[Task], machine: Mapping[str, float]) -> str:
    return (
        f"The host bounds this model: {share} of a run begins, ends and starts tasks, or is Python, and computes "
        "nothing. More work in each call helps: larger batches, several steps in one graph, and nothing that runs in "
        "Python between tasks."
    )


def _waiting(share: str, own: Iterable[Task], machine: Mapping[str, float]) -> str:
    names = ", ".join(dict.fromkeys(task["name"] for task in own))
    peers = f" for other processes ({names})" if names else " for tasks of other streams"
    return (
        f"Waiting bounds this model: {share} of a run waits{peers}. Work to do meanwhile helps, or shorter ways to "
        "what is waited for: see the arrows under Streams."
    )


def _code(share: str, own: Iterable[Task], machine: Mapping[str, float]) -> str:
    slowest = max(own, key=lambda task: task["nanoseconds"])
    reason = f", which is not generated code: {slowest['reason']}" if slowest["reason"] else ""
    if slowest["kind"] == "nested":
        reason = ", which runs other graphs: each has a page that says what bounds it"
    return (
        f"Neither memory nor arithmetic bounds this model: {share} of a run are tasks that come to less than "
        f"{FAR:.0%} of either, most of all {slowest['name']}{reason}. Another operator in its place, or a kernel of "
        "your own, helps."
    ).replace("10%", "10 %")


_SENTENCES = {
    "memory": _memory,
    "arithmetic": _arithmetic,
    "caches": _caches,
    "host": _host,
    "waiting": _waiting,
    "code": _code,
}


def _sums(own: Iterable[Task]) -> tuple[int, int, int]:
    """The sums of bytes, operations and nanoseconds."""
    own = list(own)
    moved = sum(task["bytes_read"] + task["bytes_written"] for task in own)
    return moved, sum(task["operations"] for task in own), max(sum(task["nanoseconds"] for task in own), 1)


def outside(run: Mapping[str, Any]) -> dict[str, int]:
    """Divides the nanoseconds of a run: ``before`` its first task, while at least one task ``runs``, ``between`` tasks,
    and ``after`` the last one. ``tasks`` is the sum over all tasks. It exceeds ``runs`` if streams run side by side."""
    spans = sorted((begin, begin + length) for begin, length in run["tasks"])
    first, end, runs = spans[0][0], spans[0][0], 0
    for begin, stop in spans:
        runs += max(stop - max(begin, end), 0)
        end = max(end, stop)
    return {
        "before": first,
        "runs": runs,
        "between": end - first - runs,
        "after": run["nanoseconds"] - end,
        "tasks": sum(length for _, length in run["tasks"]),
    }
