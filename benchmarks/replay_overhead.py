# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of the runtime itself: replays of tasks that do next to nothing.

Each replay is compared with the time that the project allows it: that of a loop that calls the same functions, plus
PER_REPLAY, plus PER_TASK for each task. A replay of kernels as users write them is compared with that of built-in
tasks, plus PER_TASK for each.
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
ONE, MANY, USERS = "1 task", f"{TASKS} tasks", f"{TASKS} kernels of users"
# The allowed overheads, in seconds.
PER_REPLAY = 2e-6
PER_TASK = 30e-9


def run(request: Request) -> Iterator[Result]:
    samples = request.samples
    wanted = [case for case in (ONE, MANY, USERS) if request.wants(NAME, case)]
    if not wanted:
        return
    taken = [json.loads(subprocess.run([PROGRAM], capture_output=True, check=True).stdout) for _ in range(samples)]
    one = [sample["replay_us"] * 1e-6 for sample in taken]
    loops = [sample["loop_us"] * 1e-6 for sample in taken]
    tasks = [TASKS * sample["ns_per_task"] * 1e-9 for sample in taken]  # beyond the loop
    if ONE in wanted:
        yield compared(ONE, one, [PER_REPLAY + PER_TASK] * samples)
    many = [replay + loop + more for replay, loop, more in zip(one, loops, tasks, strict=True)]
    if MANY in wanted:
        yield compared(MANY, many, [loop + PER_REPLAY + TASKS * PER_TASK for loop in loops])
    if USERS in wanted:
        of_users = [TASKS * sample["user_kernel_ns"] * 1e-9 for sample in taken]  # beyond built-in tasks
        seconds = [built_in + more for built_in, more in zip(many, of_users, strict=True)]
        yield compared(USERS, seconds, [built_in + TASKS * PER_TASK for built_in in many])


def compared(case: str, seconds: list[float], allowed: list[float]) -> Result:
    sides = [SideResult("allowed", allowed, 0.0), SideResult("runtime", seconds, 0.0)]
    return Result(NAME, case, sides, baseline="allowed")
