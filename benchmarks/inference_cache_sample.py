# SPDX-License-Identifier: Apache-2.0
"""One process of ``inference_cache``: python -m benchmarks.inference_cache_sample NAME MODEL REFERENCE STARTED.

Prints JSON: the seconds from STARTED, when the process began on the monotonic clock, to the first result, those from
the import of npugraph_ex, the graphs that were compiled, and the error against the reference.
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
