# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``cold_start``: python -m benchmarks.samples.cold_start SIDE MODEL REFERENCE CALLS.

Prints JSON: the seconds of each call, the error of the first call's main output against REFERENCE, which is a file with
the float64 outputs, and for our side the phases of the compile.
"""

from __future__ import annotations

import json
import sys
import time

import torch

from benchmarks import machine, peers, sides
from benchmarks.model_case import relative_error
from benchmarks.models import CASES
from benchmarks.special_models import SPECIAL

MODELS = CASES | SPECIAL
WITHOUT_CACHES = ("t5",)  # these models return no caches here, because OpenVINO cannot return them


@torch.no_grad()
def main(side: str, name: str, reference: str, calls: str) -> None:
    machine.use_pinned_threads()
    case = MODELS[name]
    model, inputs = case.build("base"), case.inputs(size="base")
    if name in WITHOUT_CACHES:
        for part in model.modules():
            if hasattr(part, "config"):
                part.config.use_cache = False
    sides.import_all(side)
    starts = [time.perf_counter()]
    call = peers.prepare(side, model, inputs, torch.float32)
    first = call()[0].clone()
    ends = [time.perf_counter()]
    for _ in range(int(calls) - 1):
        starts.append(time.perf_counter())
        call()
        ends.append(time.perf_counter())
    sample = {"seconds": [end - start for start, end in zip(starts, ends, strict=True)]}
    sample["error"] = relative_error(first, torch.load(reference)[0])
    if side == sides.OURS:
        import npugraph

        sample["phases"] = [phase for artifact in npugraph.artifacts() for phase in artifact.phases]
    print(json.dumps(sample))


if __name__ == "__main__":
    main(*sys.argv[1:])
