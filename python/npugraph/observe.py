# SPDX-License-Identifier: Apache-2.0
"""What a process can see of its runs: task log, memory pools, Chrome trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from npugraph import _C


@contextlib.contextmanager
def task_log() -> Iterator[list[Any]]:
    """Records every launch of a task inside the ``with``, also one that fails; the list is filled when it ends.

    Each record: sequence, artifact, instance, task, name, kind, mode ("eager", "capture", "replay"), stream, workers
    (thread ids, 0 is the caller), begin_ns and end_ns (monotonic), limits (pairs "cube_core_num", "vector_core_num" and
    workers, where a limit is in force) and waits (tasks of other streams whose events it waited for). Streams are
    numbered in the order of their first use, from 0, the one on which the graph is called; of tasks there, stream_id is
    that of the ``torch.npu`` stream of the call. device is the index of the npu. Both are None on cpu. Reserved and
    empty: scopes.
    """
    records: list[Any] = []
    _C.task_log_start()
    try:
        yield records
    finally:
        records.extend(_C.task_log_stop())


def pools() -> list[Any]:
    """Memory pools: name, owners (artifacts), live_bytes, peak_bytes, history (ns, what, bytes)."""
    return _C.pools()


def poison_freed_memory(on: bool = True) -> None:
    """Fills arena memory with a pattern when its content dies, so that a use after death shows. Slow; for debugging."""
    _C.set_poison(on)


@contextlib.contextmanager
def trace(path: str) -> Iterator[None]:
    """Writes a Chrome trace (``chrome://tracing``, Perfetto) of the compile phases, passes and tasks inside the
    ``with``. ``ValueError`` before anything runs when ``path`` cannot be written."""
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
