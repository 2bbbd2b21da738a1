# SPDX-License-Identifier: Apache-2.0
"""Measures calls 1 to 5 of base-size models (fp32, batch 1) in a fresh process with empty caches and an empty home
directory.

Imports and building the model do not count. The work of a side before its first call counts. Sides take turns, and each
sample is a process. ``dynamo`` is the cost that no backend can avoid, so ratios are to it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks import peers, processes, sides
from benchmarks.harness import Request, Result, SideResult
from benchmarks.model_case import reference64
from benchmarks.samples.cold_start import MODELS

NAME = "cold_start"
NAMES, QUICK_NAMES = ("bert", "smollm2 decode", "vit", "t5"), ("bert", "smollm2 decode")
SIDES = (*sides.DEFAULT_SIDES, *peers.FOREIGN)
CALLS = 5
STEADY = "call 2 over call 5"
MOST_SAMPLES = 3
LEAST_PHASE = 0.01  # share of the compile; shorter phases are not shown


def run(request: Request) -> Iterator[Result]:
    side_names = list(dict.fromkeys(("dynamo", *(side for side in request.sides if side in SIDES))))
    rounds = 1 if request.quick else min(request.samples, MOST_SAMPLES)
    for name in QUICK_NAMES if request.wants_few else NAMES:
        cases = [f"{name} call {call + 1}" for call in range(CALLS)]
        if any(request.wants(NAME, case) for case in cases):
            compared = compare(name, cases, side_names, rounds)
            yield from (result for result in compared if request.wants(NAME, result.case))


def compare(name: str, cases: Sequence[str], side_names: Sequence[str], rounds: int) -> Iterator[Result]:
    """Yields a result for each call."""
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference.pt"
        torch.save(reference64(MODELS[name], size="base")[:1], reference)
        taken, notes = processes.take_turns(side_names, rounds, lambda side: take_sample(side, name, reference))
    ours = taken.get(sides.OURS)
    for call, case in enumerate(cases):
        compared = [
            SideResult(side, [s["seconds"][call] for s in samples], max(s["error"] for s in samples))
            for side, samples in taken.items()
        ]
        result = Result(NAME, case, compared, baseline="dynamo", notes=dict(notes))
        if ours and call == 0:
            result.notes["phases"] = phases(ours[-1])
        if ours and call == 1:
            result.figures[STEADY] = statistics.median(s["seconds"][1] / s["seconds"][4] for s in ours)
        yield result


def take_sample(side: str, name: str, reference: Path) -> processes.Sample:
    """Runs ``samples.cold_start`` in a process that sees no cache of an earlier one."""
    with tempfile.TemporaryDirectory() as home:
        arguments, environment = (side, name, reference, CALLS), processes.environment_at(Path(home))
        return processes.run_module(
            "benchmarks.samples.cold_start", arguments, peers.interpreter(side), environment=environment
        )


def phases(sample: processes.Sample) -> str:
    """Returns the phases of our compile that took some time, in ms."""
    total = sum(time for _, time in sample["phases"])
    return ", ".join(f"{name} {time:.0f}" for name, time in sample["phases"] if time >= LEAST_PHASE * total) + " ms"
