# SPDX-License-Identifier: Apache-2.0
"""Task log, memory pools and Chrome trace: the views that a process has of its runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from npugraph import _C


@contextlib.contextmanager
def task_log() -> Iterator[list[Any]]:
    """Records every launch of a task inside the ``with``, also a launch that fails. The list is filled at the end.

    Fields of a record:

    - sequence, artifact, instance, task, name, kind
    - mode: "eager", "capture" or "replay"
    - stream: streams are numbered in the order of their first use; 0 is the stream on which the graph is called
    - stream_id: for tasks on stream 0, the id of the ``torch.npu`` stream of the call; None on cpu
    - device: the index of the npu; None on cpu
    - workers: thread ids, 0 is the caller
    - begin_ns, end_ns: nanoseconds of a monotonic clock
    - limits: pairs of "cube_core_num" or "vector_core_num" and a number of workers, for limits in force
    - waits: the tasks of other streams whose events it waited for
    - scopes: reserved and empty
    """
    records: list[Any] = []
    _C.task_log_start()
    try:
        yield records
    finally:
        records.extend(_C.task_log_stop())


def pools() -> list[Any]:
    """Returns the memory pools: name, owners (artifacts), live_bytes, peak_bytes, history (ns, what, bytes)."""
    return _C.pools()


def poison_freed_memory(on: bool = True) -> None:
    """Fills memory that compiled graphs work in with NaN before it is written and when its content is dead, so that
    earlier and later uses show. This is slow; it is for debugging."""
    _C.set_poison(on)


@contextlib.contextmanager
def trace(path: str) -> Iterator[None]:
    """Writes a Chrome trace (``chrome://tracing``, Perfetto) of the compile phases, passes and tasks inside the
    ``with``. Raises ``ValueError`` before anything runs if ``path`` cannot be written."""
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise ValueError(f"cannot write the trace to {path}: {error.strerror}") from None
    _C.trace_start()
    try:
        yield
    finally:
        _C.trace_stop(str(path))
