# SPDX-License-Identifier: Apache-2.0
"""One sample of ``cold_start``: python -m benchmarks.cold_start_sample SIDE MODEL SIZE CALLS, prints JSON."""

from __future__ import annotations

import json
import os
import sys
import time

import torch

from benchmarks import sides
from benchmarks.model_case import flatten_outputs, reference64, relative_errors
from benchmarks.models import CASES


@torch.no_grad()
def main(side: str, name: str, size: str, calls: int) -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    case = CASES[name]
    model, inputs = case.build(size), case.inputs(size=size)
    sides.import_all(side)
    seconds = []
    prepared = sides.prepare(side, model)
    for _ in range(calls):
        start = time.perf_counter()
        output = prepared(**inputs)
        seconds.append(time.perf_counter() - start)
    error = max(relative_errors(flatten_outputs(output), reference64(case, size=size)))
    print(json.dumps({"seconds": seconds, "error": error}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
