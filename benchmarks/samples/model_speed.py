# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``model_speed``:
python -m benchmarks.samples.model_speed SIDE MODEL SIZE DTYPE REFERENCE SECONDS.

Prints JSON: the median seconds of a call in steady state, the seconds of the first call, the relative error of the main
output against REFERENCE, which is a file with the float64 outputs, and for our side the share of the tasks' time that
generated code takes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch

from benchmarks import machine, peers
from benchmarks.model_case import relative_error
from benchmarks.models import CASES

LEAST_CALLS = 5
WARM_UP_CALLS = 3
NOT_GENERATED = ("aten", "kernel", "python")  # kinds of tasks


@torch.no_grad()
def main(side: str, name: str, size: str, dtype: str, reference: str, seconds: str) -> None:
    machine.use_pinned_threads()
    case = CASES[name]
    call = peers.prepare(side, case.build(size), case.inputs(size=size), getattr(torch, dtype))
    start = time.perf_counter()
    outputs = call()
    first = time.perf_counter() - start
    error = max_error(outputs, torch.load(reference))
    for _ in range(WARM_UP_CALLS):
        call()
    taken: list[float] = []
    end = time.perf_counter() + float(seconds)
    while len(taken) < LEAST_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    sample = {"seconds": statistics.median(taken), "first": first, "error": error}
    if side == peers.OURS:
        sample["generated"] = share_of_generated_code(call)
    print(json.dumps(sample))


def share_of_generated_code(call: peers.Call) -> float:
    """Returns the share of the tasks' time, over some calls, that generated code takes."""
    import npugraph

    with npugraph.task_log() as log:
        for _ in range(LEAST_CALLS):
            call()
    times = [(record.kind not in NOT_GENERATED, record.end_ns - record.begin_ns) for record in log]
    return sum(time for generated, time in times if generated) / sum(time for _, time in times)


def max_error(outputs: list[torch.Tensor], reference: list[torch.Tensor]) -> float:
    """Returns the error of the main output, which is the first. Some runtimes leave out outputs that others return."""
    return relative_error(outputs[0].float(), reference[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
