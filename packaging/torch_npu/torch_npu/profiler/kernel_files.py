# SPDX-License-Identifier: Apache-2.0
"""Tables of a profile, as Ascend's profiler writes them: each kernel, kernels by type, and the time of steps.

A kernel is an operator on tensors of npu that calls no other operator on such tensors, or a task of a graph on npu. The
streams that a graph makes itself have the numbers that it gives them. Columns about hardware that is not here are left
out.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import _EventType, _TensorMetadata

Interval = tuple[int, int]  # in nanoseconds

_REPLAYS = ("acl_graph_capture", "acl_graph_replay", "acl_graph_warm_up")  # kernels in these are tasks
_STEP = re.compile(r"ProfilerStep#(\d+)")
_NO_KERNELS = re.compile(r"aten::(empty|resize|set_|detach|lift|is_|size|stride|item|record_stream)")
_CUBE = re.compile(r"(?<![a-z])(add|b|addb|baddb|ge)?mm(?![a-z])|matmul|(?<![a-z])linear(?![a-z\d])|conv|attention")
_COMMUNICATION = re.compile(r"c10d|hccl|all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|send|recv|barrier")
_RECEIVE = re.compile(r"recv")


@dataclasses.dataclass
class Kernel:
    name: str
    type: str
    begin: int
    end: int
    device: int = 0
    stream: int = 0
    workers: int = 1
    inputs: Sequence[Any] = ()  # torch's metadata of tensors

    @property
    def core(self) -> str:
        if _COMMUNICATION.search(self.type):
            return "HCCL"
        return "AI_CORE" if _CUBE.search(self.type) else "AI_VECTOR_CORE"


def write(folder: Path, events: Iterable[Any], tasks: Iterable[Any], clock_offset: int) -> None:
    """Writes the tables of ``events``, the tree of torch's profiler, and of ``tasks``. The clock of ``tasks`` is behind
    by ``clock_offset`` nanoseconds."""
    roots = list(events)
    kernels = [*_operators(roots), *(_task(task, clock_offset) for task in tasks if task.device is not None)]
    kernels.sort(key=lambda kernel: kernel.begin)
    steps = _steps(roots, kernels)
    _write_details(folder / "kernel_details.csv", kernels, steps)
    _write_statistic(folder / "op_statistic.csv", kernels)
    _write_steps(folder / "step_trace_time.csv", kernels, steps)


def _operators(events: Iterable[Any]) -> Iterator[Kernel]:
    for event in events:
        if event.name in _REPLAYS:
            continue
        below = list(_operators(event.children))
        yield from below or filter(None, [_operator(event)])


def _operator(event: Any) -> Kernel | None:
    is_operator = event.tag == _EventType.TorchOp and "::" in event.name
    if not is_operator or _NO_KERNELS.match(event.name) or _is_view(event.name):
        return None
    tensors = [one for one in _flat(event.typed[1].inputs) if one.device.type == "npu"]
    if not tensors:
        return None
    kind = event.name.partition("::")[2]
    device = tensors[0].device.index or 0
    return Kernel(event.name, kind, event.start_time_ns, event.end_time_ns, device=device, inputs=tensors)


def _flat(inputs: Any) -> Iterator[Any]:
    for one in inputs if isinstance(inputs, (list, tuple)) else [inputs]:
        if isinstance(one, (list, tuple)):
            yield from _flat(one)
        elif isinstance(one, _TensorMetadata):
            yield one


@functools.cache
def _is_view(name: str) -> bool:
    """Whether all overloads of an operator return nothing but views of their arguments."""
    schemas = torch._C._jit_get_schemas_for_operator(name)
    return bool(schemas) and all(
        schema.returns
        and all(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
        for schema in schemas
    )


def _task(task: Any, clock_offset: int) -> Kernel:
    begin, end = task.begin_ns + clock_offset, task.end_ns + clock_offset
    kind = task.kind if task.kind in ("loop", "matmul", "attention", "convolution") else task.name.split(".")[-1]
    stream = task.stream if task.stream_id is None else task.stream_id
    return Kernel(task.name, kind, begin, end, device=task.device, stream=stream, workers=len(task.workers) or 1)


def _steps(events: Iterable[Any], kernels: Sequence[Kernel]) -> dict[str, Interval]:
    """Returns the intervals of the steps by their numbers. If the script has no steps, one interval without a number
    holds all kernels."""
    out: dict[str, Interval] = {}
    for event in _all(events):
        if match := _STEP.fullmatch(event.name):
            out[match[1]] = (event.start_time_ns, event.end_time_ns)
    if not out and kernels:
        out[""] = (kernels[0].begin, max(kernel.end for kernel in kernels))
    return out


def _all(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        yield event
        yield from _all(event.children)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.3f}"


def _write_details(path: Path, kernels: Sequence[Kernel], steps: dict[str, Interval]) -> None:
    columns = (
        "Step Id", "Device_id", "Task ID", "Stream ID", "Name", "Type", "Accelerator Core", "Start Time(us)",
        "Duration(us)", "Wait Time(us)", "Block Dim", "Input Shapes", "Input Data Types",
    )  # fmt: skip
    rows, busy_until = [], 0
    for number, kernel in enumerate(kernels):
        step = next((step for step, (begin, end) in steps.items() if begin <= kernel.begin < end), "")
        wait = max(0, kernel.begin - busy_until) if busy_until else 0
        busy_until = max(busy_until, kernel.end)
        shapes = ";".join(",".join(map(str, one.sizes)) for one in kernel.inputs)
        dtypes = ";".join(str(one.dtype).removeprefix("torch.") for one in kernel.inputs)
        times = (_us(kernel.begin), _us(kernel.end - kernel.begin), _us(wait))
        named = (kernel.device, number, kernel.stream, kernel.name, kernel.type, kernel.core)
        rows.append((step, *named, *times, kernel.workers, f'"{shapes}"' if shapes else "", dtypes))
    _write(path, columns, rows)


def _write_statistic(path: Path, kernels: Sequence[Kernel]) -> None:
    columns = (
        "Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)",
        "Ratio(%)",
    )  # fmt: skip
    times: dict[tuple[int, str, str], list[int]] = {}
    for kernel in kernels:
        times.setdefault((kernel.device, kernel.type, kernel.core), []).append(kernel.end - kernel.begin)
    total = sum(map(sum, times.values())) or 1
    rows = []
    for key, of in sorted(times.items(), key=lambda item: -sum(item[1])):
        least_to_most = map(_us, (min(of), sum(of) / len(of), max(of)))
        rows.append((*key, len(of), _us(sum(of)), *least_to_most, f"{100 * sum(of) / total:.3f}"))
    _write(path, columns, rows)


def _write_steps(path: Path, kernels: Sequence[Kernel], steps: dict[str, Interval]) -> None:
    columns = (
        "Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free",
        "Stage", "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing",
    )  # fmt: skip
    rows = []
    for device in sorted({kernel.device for kernel in kernels}):
        own = [kernel for kernel in kernels if kernel.device == device]
        rows += [(device, step, *map(_us, _step_times(own, window))) for step, window in steps.items()]
    _write(path, columns, rows)


def _step_times(kernels: Sequence[Kernel], window: Interval) -> tuple[int, ...]:
    is_communication = [kernel.core == "HCCL" for kernel in kernels]
    computing = _union(kernels, window, [not one for one in is_communication])
    communication = _union(kernels, window, is_communication)
    receiving = _union(kernels, window, [bool(_RECEIVE.search(kernel.type)) for kernel in kernels])
    all_of = _length(_union(kernels, window, [True] * len(kernels)))
    alone = all_of - _length(computing)
    bubble = _length(receiving)
    begin, end = window
    preparing = computing[0][0] - begin if computing else 0
    total_communication = _length(communication)
    times = (_length(computing), alone, total_communication - alone, total_communication, end - begin - all_of)
    return *times, end - begin - bubble, bubble, max(0, alone - bubble), preparing


def _union(kernels: Sequence[Kernel], window: Interval, chosen: Sequence[bool]) -> list[Interval]:
    """Returns the parts of the window in which a chosen kernel runs, in order. ``kernels`` are in the order of their
    begins."""
    out: list[Interval] = []
    for kernel, is_chosen in zip(kernels, chosen, strict=True):
        begin, end = max(kernel.begin, window[0]), min(kernel.end, window[1])
        if not is_chosen or begin >= end:
            continue
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)
