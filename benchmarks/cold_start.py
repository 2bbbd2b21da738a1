# SPDX-License-Identifier: Apache-2.0
"""Calls 1 to 5 of BERT-base (1 x 128, fp32) in a fresh process with empty caches and an empty home directory.

Imports and building the model do not count. Sides take turns, a process for each sample.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

from benchmarks import processes
from benchmarks.harness import Request, Result, SideResult

NAME = "cold_start"
MODEL = "bert"
CALLS = 5
MOST_SAMPLES = 3
CACHE_VARIABLES = ("TORCHINDUCTOR_", "TRITON_", "XDG_", "NPUGRAPH_CACHE")


def run(request: Request) -> Iterator[Result]:
    size = "tiny" if request.quick else "base"
    cases = [f"{MODEL} {size} call {call + 1}" for call in range(CALLS)]
    wanted = [(call, case) for call, case in enumerate(cases) if request.wants(NAME, case)]
    if not wanted:
        return
    rounds = 1 if request.quick else min(request.samples, MOST_SAMPLES)
    taken, notes = processes.take_turns(request.sides, rounds, lambda side: take_sample(side, size))
    for call, case in wanted:
        compared = [
            SideResult(side, [s["seconds"][call] for s in samples], max(s["error"] for s in samples))
            for side, samples in taken.items()
        ]
        yield Result(NAME, case, compared, notes=dict(notes))


def take_sample(side: str, size: str) -> processes.Sample:
    """Runs ``cold_start_sample`` in a process that sees no cache of an earlier one."""
    with tempfile.TemporaryDirectory() as home:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(CACHE_VARIABLES)}
        environment |= {"HOME": home, "TMPDIR": home}
        return processes.run_module("benchmarks.cold_start_sample", (side, MODEL, size, CALLS), environment=environment)
