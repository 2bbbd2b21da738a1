# SPDX-License-Identifier: Apache-2.0
"""What the npu device costs in eager mode: the same call on tensors of npu and of cpu, one thread. Each case in a
process of its own, into which torch has loaded torch_npu, as it does where that is installed."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import processes
from benchmarks.harness import Request, Result, SideResult
from benchmarks.npu_eager_sample import CASES, SIDES

NAME = "npu_eager"
PYTHON = processes.ROOT / "scripts/npu_python"


def run(request: Request) -> Iterator[Result]:
    for case in CASES:
        if request.wants(NAME, case):
            seconds = processes.run_module("benchmarks.npu_eager_sample", (case, request.samples), python=str(PYTHON))
            sides = [SideResult(side, seconds[side], error=0.0) for side in SIDES]
            yield Result(NAME, case, sides, baseline=SIDES[0])
