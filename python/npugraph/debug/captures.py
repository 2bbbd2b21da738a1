# SPDX-License-Identifier: Apache-2.0
"""The tasks of each capture as a Chrome trace, which ``chrome://tracing`` and Perfetto show."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.aot_compile_types import SerializableCallable

from npugraph.debug.folder import GraphFolder, unharmed
from npugraph.observe import task_log


class Watched:
    """Wraps a compiled function, and is called as the function is. ``write`` gets the launches of each run that
    captured."""

    def __init__(self, run: Any, artifact: Any, write: Callable[[Sequence[Any]], None]) -> None:
        self._run = run
        self._artifact = artifact
        self._write = write
        self._boxed_call = getattr(run, "_boxed_call", False)
        self._known: set[Any] = set()  # sizes of inputs that were captured

    def __call__(self, *args: Any) -> Any:
        key = _sizes(args[0] if self._boxed_call else args)
        if key in self._known:
            return self._run(*args)
        self._known.add(key)
        with task_log() as records:
            result = self._run(*args)
        captured = [r for r in records if r.artifact == self._artifact.name and r.mode == "capture"]
        if captured:
            self._write(captured)
        return result

    @staticmethod
    def serialize_compile_artifacts(watched: Watched) -> bytes:
        return type(watched._run).serialize_compile_artifacts(watched._run)

    @staticmethod
    def deserialize_compile_artifacts(data: bytes) -> Any:
        from npugraph.stored import graphs

        return graphs.function_of(data)


SerializableCallable.register(Watched)


def written(run: Any, artifact: Any, folder: GraphFolder) -> Watched:
    """Wraps the function so that it writes a file to ``folder`` whenever it has captured."""

    def write(captured: Sequence[Any]) -> None:
        folder.capture(time.time_ns()).write_text(json.dumps(chrome_trace(artifact, captured)))

    return Watched(run, artifact, functools.partial(unharmed, write))


def _sizes(inputs: Sequence[Any]) -> Any:
    return tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else x if _is_number(x) else None for x in inputs)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def chrome_trace(artifact: Any, records: Sequence[Any]) -> dict[str, Any]:
    """The launches of one run as a Chrome trace: a row for each stream, and times in microseconds since the first
    launch."""
    tasks = artifact.tasks
    start = min(record.begin_ns for record in records)
    process = os.getpid()
    streams = sorted({record.stream for record in records})
    events: list[dict[str, Any]] = [_name(process, 0, "process_name", artifact.name)]
    events += [_name(process, stream, "thread_name", f"stream {stream}") for stream in streams]
    for record in records:
        task = tasks[record.task]
        events.append(
            {
                "name": record.name,
                "cat": record.kind,
                "ph": "X",
                "pid": process,
                "tid": record.stream,
                "ts": (record.begin_ns - start) * 1e-3,
                "dur": (record.end_ns - record.begin_ns) * 1e-3,
                "args": {
                    "task": record.task,
                    "origin": task.origin,
                    "source": task.source,
                    "reason": task.reason,
                    "bytes_read": task.bytes_read,
                    "bytes_written": task.bytes_written,
                    "workers": list(record.workers),
                    "waits": list(record.waits),
                    "limits": dict(record.limits),
                },
            }
        )
    about = {"artifact": artifact.name, "instance": records[0].instance}
    return {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}


def _name(process: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
