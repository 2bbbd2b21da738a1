# SPDX-License-Identifier: Apache-2.0
"""Runs one process of ``inference_cache``: python -m benchmarks.samples.inference_cache NAME MODEL REFERENCE STARTED.

STARTED is the time on the monotonic clock at which the process began. Prints JSON: the seconds from STARTED to the
first result, the seconds from the import of npugraph_ex, the number of compiled graphs, and the error against the
reference.
"""

from __future__ import annotations

import json
import sys
import time

import torch

from benchmarks import machine
from benchmarks.model_case import flatten_outputs, relative_error
from benchmarks.special_models import SPECIAL


@torch.no_grad()
def main(name: str, file: str, reference: str, started: str) -> None:
    machine.use_pinned_threads()
    model, inputs = torch.load(file, weights_only=False, mmap=True), SPECIAL[name].inputs(size="base")
    begin = time.monotonic()
    import npugraph_ex

    outputs = npugraph_ex.inference.cache_compile(model.forward)(**inputs)
    end = time.monotonic()
    sample = {"seconds": end - float(started), "from_import": end - begin}
    sample["compiles"] = torch._dynamo.utils.counters["npugraph_ex"]["compiles"]
    sample["error"] = relative_error(flatten_outputs(outputs)[0], torch.load(reference)[0])
    print(json.dumps(sample))


if __name__ == "__main__":
    main(*sys.argv[1:])
