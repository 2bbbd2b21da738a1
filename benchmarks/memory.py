# SPDX-License-Identifier: Apache-2.0
"""Measures the memory of the base-size models beyond their weights, fp32, batch 1, texts of 512 tokens. Each side is a
fresh process.

``extra`` is the peak of resident memory during the compile and the first calls minus the resident memory once the model
was there. It includes packed copies of weights, the memory that compiling takes, and the memory that it leaves behind.
``extra of calls`` uses the peak of later calls instead, which includes only the memory that compiling leaves behind.
The side ``npugraph_ex direct`` is the same Program, saved and loaded in a process that compiles nothing and has no
Dynamo. Page faults are the mean of a call in steady state, over all timed calls but the worst.

``planned`` is the bytes of arena, heap and scratch over the least that they can be: the most intermediate results alive
at once (``live_bytes``) plus the heap bytes, most of which are outputs and which no plan can change. The workspaces
that our tasks need besides count in full: they are in the arena and the scratch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks import processes, sides
from benchmarks.harness import Request, Result
from benchmarks.model_case import reference64
from benchmarks.models import CASES

NAME = "memory"
QUICK = ("bert", "llama")
SIZE = "long"
SIDES = sides.DEFAULT_SIDES
EXTRA, EXTRA_OF_CALLS = "extra over eager's", "extra of calls over eager's"
EXTRA_DIRECT = "extra of direct calls over eager's"
FAULTS, PLANNED = "page faults per call", "planned over least"
MB = 1e6


def run(request: Request) -> Iterator[Result]:
    side_names = [side for side in request.sides if side in SIDES]
    for name in QUICK if request.wants_few else CASES:
        if request.wants(NAME, name):
            yield compare(name, side_names)


def compare(name: str, side_names: Sequence[str]) -> Result:
    """Takes one sample of each side, because bytes do not vary."""
    taken: dict[str, processes.Sample] = {}
    with tempfile.TemporaryDirectory() as folder:
        torch.save(reference64(CASES[name], size=SIZE)[:1], Path(folder) / "reference.pt")

        def take(side: str) -> processes.Sample:
            taken[side] = processes.run_module("benchmarks.samples.memory", (side, name, SIZE, folder))
            return taken[side]

        direct = [sides.DIRECT] if sides.OURS in side_names else []  # runs the Program that our side saves
        result = processes.compare(NAME, name, [*side_names, *direct], 1, take)
    for what in ("extra", "extra_of_calls"):
        result.notes[f"{what.replace('_', ' ')}, MB"] = listed(taken, what, MB)
    result.notes["page faults"] = listed(taken, "faults", 1)
    ours, eager = taken.get(sides.OURS), taken.get("eager")
    if ours:
        result.notes["weights, MB"] = f"{ours['weights'] / MB:.0f}"
        result.notes["planned, MB"] = ", ".join(f"{key} {value / MB:.2f}" for key, value in ours["memory"].items())
        result.figures[FAULTS] = ours["faults"]
        result.figures[PLANNED] = planned_over_least(ours["memory"])
    if ours and eager:
        result.figures[EXTRA] = ours["extra"] / eager["extra"]
        result.figures[EXTRA_OF_CALLS] = ours["extra_of_calls"] / eager["extra_of_calls"]
    if sides.DIRECT in taken and eager:
        result.figures[EXTRA_DIRECT] = taken[sides.DIRECT]["extra_of_calls"] / eager["extra_of_calls"]
    return result


def listed(taken: dict[str, processes.Sample], key: str, unit: float) -> str:
    return ", ".join(f"{side} {sample[key] / unit:.4g}" for side, sample in taken.items())


def planned_over_least(memory: dict[str, int]) -> float:
    least = memory["live_bytes"] + memory["heap_bytes"]
    return (memory["arena_bytes"] + memory["heap_bytes"] + memory["scratch_bytes"]) / least if least else 1.0
