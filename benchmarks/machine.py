# SPDX-License-Identifier: Apache-2.0
"""The machine that a benchmark runs on: its description, pinning to its cores, and the load of other processes."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.harness import Result
from benchmarks.processes import ROOT

LOADED = 0.05  # share of all cores that others may use before figures are doubtful
AGREED = 0.02  # relative difference between two measurements of a limit that agree
MOST_RUNS = 10
LEAST_SECONDS = 0.2  # the shortest time in which the load of others can be measured
PACKAGES = ("torch", "transformers", "npugraph", "numpy")
# Variables that hold code to an instruction set. Few libraries have one of their own, so the processor hides the rest.
ONLY_AVX2 = ROOT / "build/release/lib/libonly_avx2.so"
ISA = {"avx2": {"LD_PRELOAD": str(ONLY_AVX2)}}
PR_SET_CHILD_SUBREAPER = 36  # an option of prctl(2)


def pin(threads: int) -> None:
    """Binds this process and its children to ``threads`` cores and gives torch as many threads."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(len(cores))
    torch.set_num_threads(len(cores))


def is_held_to(isa: str) -> bool:
    return all(os.environ.get(name) == value for name, value in ISA[isa].items())


def use_pinned_threads() -> None:
    """Gives torch as many threads as :func:`pin` did in the process that started this one."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))


def describe() -> dict[str, Any]:
    """Returns processor, memory, versions and commit, for the JSON record."""
    return {
        "processor": cpu_field("model name") or platform.processor(),
        "cores": sorted(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": commit(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load_average": os.getloadavg()[0],
    }


def measured_limits() -> dict[str, float]:
    program = ROOT / "build/release/bin/machine_limits"
    return json.loads(subprocess.run([program], capture_output=True, check=True, text=True).stdout)


def limits(names: Sequence[str], measure: Callable[[], Mapping[str, float]] = measured_limits) -> dict[str, float]:
    """Measures the limits ``names`` of all pinned cores and returns them per second. They are the operations of matrix
    products by element type (``float32``, ``bfloat16``), and the bytes of ``read``, ``copy`` and ``copy_streaming``
    (read and written).

    What else runs on the machine only lowers a measurement. So it is repeated until the two largest values of each
    limit agree. Raises ``UnsteadyMachine`` if they never do."""
    runs = []
    for _ in range(MOST_RUNS):
        runs.append(measure())
        largest = {name: sorted((run[name] for run in runs), reverse=True)[:2] for name in names}
        if len(runs) > 1 and all(first - second <= AGREED * first for first, second in largest.values()):
            return {name: first for name, (first, _) in largest.items()}
    raise UnsteadyMachine(f"the limits of the machine differ in each of {MOST_RUNS} runs: {largest}")


class UnsteadyMachine(Exception):
    """The limits of the machine cannot be measured while it does other work."""


class Limits:
    """The limits ``names`` of the machine beside each case of a benchmark: before and after it."""

    def __init__(self, names: Sequence[str], measure: Callable[[], Mapping[str, float]] = measured_limits) -> None:
        self._names, self._measure = tuple(names), measure
        self._last = self._known()

    def set_share(self, result: Result, limit: str, name: str, work: float) -> None:
        """Measures the limits behind a case whose ``result`` did ``work``, in the unit of limit ``name``. Its share of
        the larger value of before and after it is called ``limit``. The result has a note instead, and no share, if
        neither can be measured."""
        before, self._last = self._last, self._known()
        known = [limits[name] for limits in (before, self._last) if limits is not None]
        if known:
            result.limit, result.limit_seconds = limit, work / max(known)
        else:
            result.notes[limit] = "unknown, because the limits of the machine differ from one measurement to the next"

    def _known(self) -> Mapping[str, float] | None:
        try:
            return limits(self._names, self._measure)
        except UnsteadyMachine:
            return None


def cpu_field(name: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """Returns the source tree's revision, with a plus sign if files differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")


class ForeignLoad:
    """Measures the share of all cores that other processes used between construction and :meth:`share`."""

    def __init__(self) -> None:
        self.start = (time.monotonic(), busy_seconds(), own_seconds())

    def share(self) -> float:
        elapsed = time.monotonic() - self.start[0]
        if elapsed < LEAST_SECONDS:  # processor times are counted in hundredths of seconds
            return 0.0
        foreign = (busy_seconds() - self.start[1]) - (own_seconds() - self.start[2])
        return max(0.0, foreign / (elapsed * (os.cpu_count() or 1)))


def busy_seconds() -> float:
    """Returns the processor time that the whole machine has spent outside of idling and waiting for disks."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, interrupt, soft, steal, *_ = map(int, fields)
    return (user + nice + system + interrupt + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Returns the processor time of this process and of the processes that it has started, running or not."""
    ticks, per_second = 0, os.sysconf("SC_CLK_TCK")
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            taken = process.cpu_times()
            # Whole ticks: a sum of fractions depends on the process in which a tick is counted.
            parts = (taken.user, taken.system, taken.children_user, taken.children_system)
            ticks += sum(round(part * per_second) for part in parts)
    return ticks / per_second


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants whose own parents end. Whoever ends descendants then has to wait
    for all of them: only then their time counts as this process's own, and not as that of others (``ForeignLoad``)."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
