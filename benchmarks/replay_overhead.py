# SPDX-License-Identifier: Apache-2.0
"""What the runtime itself costs: replays of tasks that do next to nothing.

Beside each replay stands what the project allows it: a loop that calls the same functions, and so much more.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Result, SideResult

NAME = "replay_overhead"
PROGRAM = Path(__file__).resolve().parents[1] / "build/release/bin/replay_overhead"
TASKS = 1000
# Seconds that are allowed.
PER_REPLAY = 2e-6
PER_TASK = 30e-9


def run(side_names: Sequence[str], samples: int, quick: bool) -> Iterator[Result]:
    taken = [json.loads(subprocess.run([PROGRAM], capture_output=True, check=True).stdout) for _ in range(samples)]
    one = [sample["replay_us"] * 1e-6 for sample in taken]
    loops = [sample["loop_us"] * 1e-6 for sample in taken]
    tasks = [TASKS * sample["ns_per_task"] * 1e-9 for sample in taken]  # beyond the loop
    yield compared("1 task", one, [PER_REPLAY + PER_TASK] * samples)
    yield compared(
        f"{TASKS} tasks",
        [replay + loop + more for replay, loop, more in zip(one, loops, tasks, strict=True)],
        [loop + PER_REPLAY + TASKS * PER_TASK for loop in loops],
    )


def compared(case: str, seconds: list[float], allowed: list[float]) -> Result:
    sides = [SideResult("allowed", allowed, 0.0), SideResult("runtime", seconds, 0.0)]
    return Result(NAME, case, sides, baseline="allowed")
