# SPDX-License-Identifier: Apache-2.0
"""Measures ``cache_compile`` of a decode step of SmolLM2's shape (fp32) in a process that finds no cache, and in the
next one.

The time is that from the start of the process to the first result. The start of Python, the imports of torch and
transformers, and loading the model from a file are the same in both. A note has the time without them, from the import
of npugraph_ex on.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import processes, sides
from benchmarks.harness import Request, Result, SideResult
from benchmarks.model_case import reference64
from benchmarks.special_models import SPECIAL

NAME = "inference_cache"
MODEL = "smollm2 decode"
FIRST, SECOND = "first process", "second process"
FROM_IMPORT = "from the import of npugraph_ex"
COMPILES = "graphs that the second process compiled"
MOST_SAMPLES = 5


def run(request: Request) -> Iterator[Result]:
    if sides.OURS not in request.sides or not request.wants(NAME, MODEL):
        return
    rounds = 2 if request.quick else min(request.samples, MOST_SAMPLES)
    with tempfile.TemporaryDirectory() as name:
        files = Path(name) / "model.pt", Path(name) / "reference.pt"
        torch.save(SPECIAL[MODEL].build("base"), files[0])
        torch.save(reference64(SPECIAL[MODEL], size="base")[:1], files[1])
        pairs = [take_pair(*files) for _ in range(rounds)]
    compared = [
        SideResult(side, [sample["seconds"] for sample in samples], max(sample["error"] for sample in samples))
        for side, samples in zip((FIRST, SECOND), zip(*pairs, strict=True), strict=True)
    ]
    result = Result(NAME, MODEL, compared, baseline=FIRST)
    ours = (statistics.median(sample["from_import"] for sample in samples) for samples in zip(*pairs, strict=True))
    result.notes[FROM_IMPORT] = ", then ".join(f"{seconds:.2f} s" for seconds in ours)
    result.figures[COMPILES] = max(second["compiles"] for _, second in pairs)
    yield result


def take_pair(model: Path, reference: Path) -> list[processes.Sample]:
    """Returns the samples of a first and of a second process, which share a folder of their own."""
    with tempfile.TemporaryDirectory() as name:
        environment = os.environ | {"NPUGRAPH_CACHE": f"{name}/code", "TORCHAIR_CACHE_HOME": f"{name}/graphs"}
        module = "benchmarks.samples.inference_cache"
        return [
            processes.run_module(module, (MODEL, model, reference, time.monotonic()), environment=environment)
            for _ in range(2)
        ]
