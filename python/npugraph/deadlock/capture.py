# SPDX-License-Identifier: Apache-2.0
"""Option ``deadlock_check``: each capture of a graph is checked."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npugraph import _C
from npugraph.deadlock.check import check_file
from npugraph.deadlock.device_trace import device_trace
from npugraph.deadlock.operators import VECTOR_CORES
from npugraph.deadlock.trace_file import write
from npugraph.debug.captures import Watched
from npugraph.debug.folder import unharmed

FOLDER = "npugraph_deadlock_check"


def checked(run: Any, artifact: Any) -> Watched:
    """Wraps ``run``. After a call that captured, it writes the graph to ``FOLDER`` in the current directory and prints
    the verdict. From this call on, a file there names the running tasks. Other processes can read it if a run never
    ends."""
    unharmed(_record_running_tasks, Path(FOLDER).resolve() / f"running_{os.getpid()}.txt")
    return Watched(run, artifact, functools.partial(unharmed, _write, artifact, itertools.count()))


@functools.lru_cache(maxsize=1)
def _record_running_tasks(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    _C.record_running_tasks(str(path))


def _write(artifact: Any, numbers: Any, records: Sequence[Any]) -> None:
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', artifact.name)}_{next(numbers)}.json"
    trace = device_trace(artifact, records)
    write(path, trace["traceEvents"], **trace["otherData"])
    check_file(path, VECTOR_CORES, lambda line: print(f"{artifact.name}: {line}"))
