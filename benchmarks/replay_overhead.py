# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of the runtime itself: replays of tasks that do next to nothing.

Each replay is compared with the time that the project allows it: that of a loop that calls the same functions, plus
PER_REPLAY, plus PER_TASK for each task.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Request, Result, SideResult

NAME = "replay_overhead"
PROGRAM = Path(__file__).resolve().parents[1] / "build/release/bin/replay_overhead"
TASKS = 1000
ONE, MANY = "1 task", f"{TASKS} tasks"
# The allowed overheads, in seconds.
PER_REPLAY = 2e-6
PER_TASK = 30e-9


def run(request: Request) -> Iterator[Result]:
    samples = request.samples
    wanted = [case for case in (ONE, MANY) if request.wants(NAME, case)]
    if not wanted:
        return
    taken = [json.loads(subprocess.run([PROGRAM], capture_output=True, check=True).stdout) for _ in range(samples)]
    one = [sample["replay_us"] * 1e-6 for sample in taken]
    loops = [sample["loop_us"] * 1e-6 for sample in taken]
    tasks = [TASKS * sample["ns_per_task"] * 1e-9 for sample in taken]  # beyond the loop
    if ONE in wanted:
        yield compared(ONE, one, [PER_REPLAY + PER_TASK] * samples)
    if MANY in wanted:
        many = [replay + loop + more for replay, loop, more in zip(one, loops, tasks, strict=True)]
        yield compared(MANY, many, [loop + PER_REPLAY + TASKS * PER_TASK for loop in loops])


def compared(case: str, seconds: list[float], allowed: list[float]) -> Result:
    sides = [SideResult("allowed", allowed, 0.0), SideResult("runtime", seconds, 0.0)]
    return Result(NAME, case, sides, baseline="allowed")
