# SPDX-License-Identifier: Apache-2.0
"""One process of ``inference_cache``: python -m benchmarks.inference_cache_sample MODEL REFERENCE.

Prints JSON: the seconds from the import of npugraph_ex to the first result, the graphs that were compiled, and the
error against the reference.
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
def main(name: str, reference: str) -> None:
    machine.use_pinned_threads()
    case = SPECIAL[name]
    model, inputs = case.build("base"), case.inputs(size="base")
    begin = time.perf_counter()
    import npugraph_ex

    outputs = npugraph_ex.inference.cache_compile(model.forward)(**inputs)
    seconds = time.perf_counter() - begin
    counts = torch._dynamo.utils.counters["npugraph_ex"]
    error = relative_error(flatten_outputs(outputs)[0], torch.load(reference)[0])
    print(json.dumps({"seconds": seconds, "compiles": counts["compiles"], "error": error}))


if __name__ == "__main__":
    main(*sys.argv[1:])
