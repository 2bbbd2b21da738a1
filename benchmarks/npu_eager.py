# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of the npu device in eager mode: the same call on tensors of npu and of the CPU, with one thread.

Each case runs in processes of its own, into which torch has loaded torch_npu, as it does where that is installed. A
case runs in several processes, because code and data lie at other addresses in each, which changes the time by a tenth
of a microsecond.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks import processes
from benchmarks.harness import Request, Result, SideResult
from benchmarks.samples.npu_eager import CASES, SIDES

NAME = "npu_eager"
PYTHON = processes.ROOT / "scripts/npu_python"
PROCESSES = 5


def run(request: Request) -> Iterator[Result]:
    for case in CASES:
        if request.wants(NAME, case):
            samples = [_in_a_process(case, math.ceil(request.samples / PROCESSES)) for _ in range(PROCESSES)]
            sides = [SideResult(side, [s for one in samples for s in one[side]], error=0.0) for side in SIDES]
            yield Result(NAME, case, sides, baseline=SIDES[0])


def _in_a_process(case: str, samples: int) -> dict[str, list[float]]:
    return processes.run_module("benchmarks.samples.npu_eager", (case, samples), python=str(PYTHON))
