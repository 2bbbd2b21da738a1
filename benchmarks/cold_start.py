# SPDX-License-Identifier: Apache-2.0
"""Calls 1 to 5 of BERT-base (1 x 128, fp32) in a fresh process with empty caches and an empty home directory.

Imports and building the model do not count. Sides take turns, a process for each sample.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence

from benchmarks import processes
from benchmarks.harness import Result, SideResult

NAME = "cold_start"
MODEL = "bert"
CALLS = 5
MOST_SAMPLES = 3
CACHE_VARIABLES = ("TORCHINDUCTOR_", "TRITON_", "XDG_", "NPUGRAPH_CACHE")


def run(side_names: Sequence[str], samples: int, quick: bool) -> Iterator[Result]:
    size = "tiny" if quick else "base"
    rounds = 1 if quick else min(samples, MOST_SAMPLES)
    taken: dict[str, list[processes.Sample]] = {name: [] for name in side_names}
    for _ in range(rounds):
        for name in side_names:
            taken[name].append(take_sample(name, size))
    for call in range(CALLS):
        compared = [
            SideResult(name, [s["seconds"][call] for s in taken[name]], max(s["error"] for s in taken[name]))
            for name in side_names
        ]
        yield Result(NAME, f"{MODEL} {size} call {call + 1}", compared)


def take_sample(side: str, size: str) -> processes.Sample:
    """Runs ``cold_start_sample`` in a process that sees no cache of an earlier one."""
    with tempfile.TemporaryDirectory() as home:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(CACHE_VARIABLES)}
        environment |= {"HOME": home, "TMPDIR": home}
        return processes.run_module("benchmarks.cold_start_sample", (side, MODEL, size, CALLS), environment=environment)
