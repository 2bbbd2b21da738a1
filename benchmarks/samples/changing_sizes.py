# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``changing_sizes``: python -m benchmarks.samples.changing_sizes SIDE DYNAMIC MODEL SIZE FOLDER.

DYNAMIC is the argument of torch.compile; with False only the sampled requests run, each compiled for itself. FOLDER
holds ``requests.pt``. Prints JSON: the seconds of all requests, the number of compiles, our counters of the Instances
that were made after the first request, the median seconds of a call in steady state for each sampled request, and the
largest error.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from benchmarks import machine, sides
from benchmarks.model_case import Inputs, flatten_outputs, relative_error
from benchmarks.models import CASES

LEAST_CALLS, SECONDS = 7, 0.3  # the least number and the least duration of timed calls in steady state
WARM_UP_CALLS = 3
Function = Callable[..., Any]


@torch.no_grad()
def main(side: str, dynamic: str, model_name: str, size: str, folder: str) -> None:
    machine.use_pinned_threads()
    requests, references, sampled = torch.load(Path(folder) / "requests.pt")
    model = CASES[model_name].build(size)
    sides.import_all(side)
    prepared = sides.prepare(side, model, dynamic={"True": True, "False": False, "None": None}[dynamic])
    errors, seconds, steady, first = [], 0.0, [], None
    if dynamic != "False":
        for inputs, reference in zip(requests, references, strict=True):
            start = time.perf_counter()
            output = prepared(**inputs)
            seconds += time.perf_counter() - start
            first = first or dict(counters[side])
            errors.append(relative_error(flatten_outputs(output)[0], reference))
    compiles = count_compiles(side)
    captured = {}
    if first and side == sides.OURS:
        captured = {name: counters[side][name] - first[name] for name in ("captures", "capture_ns")}
    for index in sampled:
        if dynamic == "False":
            torch._dynamo.reset()
            errors.append(relative_error(flatten_outputs(prepared(**requests[index]))[0], references[index]))
        steady.append(steady_seconds(prepared, requests[index]))
    sample = {"seconds": seconds, "compiles": compiles, "steady": steady, "error": max(errors), "captured": captured}
    print(json.dumps(sample))


def count_compiles(side: str) -> int:
    """Returns the number of Dynamo's graphs, or of our backend's compiles if there were more."""
    return max(counters["stats"]["unique_graphs"], counters[side]["compiles"])


def steady_seconds(prepared: Function, inputs: Inputs) -> float:
    for _ in range(WARM_UP_CALLS):
        prepared(**inputs)
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(taken) < LEAST_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        prepared(**inputs)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
