# SPDX-License-Identifier: Apache-2.0
"""Measures a second process: ``npugraph.load`` of a saved decode step of SmolLM2's shape (fp32). Its weights are mapped
from a file, and its machine code comes from the cache on disk.

The times are those from the call of ``npugraph.load`` to the start of the first task, and to the first result. Imports,
building the model and mapping its weights do not count.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import processes, sides
from benchmarks.harness import Request, Result, SideResult
from benchmarks.model_case import reference64
from benchmarks.special_models import SPECIAL

NAME = "warm_start"
MODEL = "smollm2 decode"
FIRST_TASK = "ms from npugraph.load to the first task"
MOST_SAMPLES = 5


def run(request: Request) -> Iterator[Result]:
    if sides.OURS not in request.sides or not request.wants(NAME, MODEL):
        return
    rounds = 3 if request.quick else min(request.samples, MOST_SAMPLES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.save(reference64(SPECIAL[MODEL], size="base")[:1], folder / "reference.pt")
        take_sample("save", folder)
        samples = [take_sample("load", folder) for _ in range(rounds)]
    result = Result(
        NAME,
        MODEL,
        [SideResult(sides.OURS, [s["seconds"] for s in samples], max(s["error"] for s in samples))],
        baseline=sides.OURS,
    )
    result.figures[FIRST_TASK] = statistics.median(1e3 * s["first_task"] for s in samples)
    result.notes["parts"] = samples[-1]["parts"]
    yield result


def take_sample(what: str, folder: Path) -> processes.Sample:
    environment = os.environ | {"NPUGRAPH_CACHE": str(folder / "cache")}
    return processes.run_module("benchmarks.samples.warm_start", (what, MODEL, folder), environment=environment)
