# SPDX-License-Identifier: Apache-2.0
"""Compiles, calls and deletes models in one process, one after the other, and measures the memory that does not come
back.

The models are those of the model set in size ``tiny``, again and again. All of them run without a compile first. The
measurement starts after a few compiled ones, when everything that the process needs once is there. ``dynamo`` shows
what torch itself keeps.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import processes, sides
from benchmarks.harness import Request, Result
from benchmarks.samples.lifecycle import MODELS

NAME = "lifecycle"
MODEL_COUNT, QUICK_COUNT = 50, 10
WARM_UP = 5  # models before the start
SIDES = ("dynamo", "inductor", sides.OURS)
QUICK_SIDES = ("dynamo", sides.OURS)
GROWTH = "resident memory, end over start"
MB = 1e6


def run(request: Request) -> Iterator[Result]:
    count = QUICK_COUNT if request.quick else MODEL_COUNT
    case = f"{count} models"
    if not request.wants(NAME, case):
        return
    chosen = [side for side in request.sides if side in (QUICK_SIDES if request.quick else SIDES)]
    taken: dict[str, processes.Sample] = {}

    def take(side: str) -> processes.Sample:
        arguments = (side, min(WARM_UP, len(MODELS)), count)
        taken[side] = processes.run_module("benchmarks.samples.lifecycle", arguments)
        return taken[side]

    result = processes.compare(NAME, case, chosen, 1, take)
    result.baseline = "dynamo"
    for side, sample in taken.items():
        resident = sample["resident"]
        text = " ".join(f"{value / MB:.0f}" for value in resident[:: max(1, len(resident) // 10)])
        result.notes[f"MB of {side} over time"] = f"{text}, end over start {resident[-1] / resident[0]:.4f}"
    if sides.OURS in taken:
        resident = taken[sides.OURS]["resident"]
        result.figures[GROWTH] = resident[-1] / resident[0]
    yield result
