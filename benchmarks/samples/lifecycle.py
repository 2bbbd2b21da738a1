# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``lifecycle``: python -m benchmarks.samples.lifecycle SIDE WARM_UP COUNT.

Prints JSON: resident bytes after WARM_UP models and after each of COUNT more, the mean seconds of a model, and the
largest error against float64.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch._dynamo.utils import counters

from benchmarks import machine, process_memory, sides
from benchmarks.model_case import ModelCase, flatten_outputs, reference64, relative_errors
from benchmarks.models import CASES

CALLS = 2
MODELS = list(CASES.values())


@torch.no_grad()
def main(side: str, warm_up: str, count: str) -> None:
    machine.use_pinned_threads()
    sides.import_all(side)
    references = [reference64(case) for case in MODELS]
    for case in MODELS:  # loads what their operators need once in a process
        case.build()(**case.inputs())
    errors = []
    resident = []
    start = time.perf_counter()
    for number in range(int(warm_up) + int(count)):
        which = number % len(MODELS)
        errors.append(one_life(side, MODELS[which], references[which]))
        forget(side)
        if number == int(warm_up) - 1:
            start = time.perf_counter()
        if number >= int(warm_up) - 1:
            resident.append(process_memory.resident())
    seconds = (time.perf_counter() - start) / int(count)
    print(json.dumps({"seconds": seconds, "resident": resident, "error": max(errors)}))


def one_life(side: str, case: ModelCase, reference: list[torch.Tensor]) -> float:
    """Builds, compiles and calls a model, and drops all of it. Returns the error of its main output."""
    prepared = sides.prepare(side, case.build())
    for _ in range(CALLS):
        output = prepared(**case.inputs())
    return relative_errors(flatten_outputs(output)[:1], reference[:1])[0]


def forget(side: str) -> None:
    torch._dynamo.reset()
    counters.clear()
    if side == sides.OURS:
        import npugraph

        npugraph.reset()


if __name__ == "__main__":
    main(*sys.argv[1:])
