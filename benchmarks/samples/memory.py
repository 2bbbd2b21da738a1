# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``memory``: python -m benchmarks.samples.memory SIDE MODEL SIZE FOLDER.

Prints JSON: the bytes and page faults that ``memory`` describes, for our side also the memory that the artifacts
report, the median seconds of a call, and the error of the main output against the float64 outputs in FOLDER. Our side
saves its Program in FOLDER, for its direct calls.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, process_memory, sides
from benchmarks.model_case import flatten_outputs, relative_error
from benchmarks.models import CASES

FIRST_CALLS, CALLS = 3, 10
PROGRAM = "program"


@torch.no_grad()
def main(side: str, name: str, size: str, folder_name: str) -> None:
    machine.use_pinned_threads()
    case, folder = CASES[name], Path(folder_name)
    model, inputs = case.build(size), case.inputs(size=size)
    sides.import_all(side)
    loaded = process_memory.resident()
    process_memory.reset_peak()
    prepared = load(folder, model) if side == sides.DIRECT else sides.prepare(side, model)
    for _ in range(FIRST_CALLS):
        output = None  # frees the results before the next call
        output = prepared(**inputs)
    sample: dict[str, Any] = {"extra": process_memory.peak() - loaded}
    sample["error"] = error_of(output, torch.load(folder / "reference.pt")[0], side)
    del output
    process_memory.resident()  # gives back the memory that compiling no longer holds
    for _ in range(FIRST_CALLS):  # brings back the part of it that calls need
        prepared(**inputs)
    process_memory.reset_peak()
    seconds, faults = [], []
    for _ in range(CALLS):
        before, start = process_memory.page_faults(), time.perf_counter()
        prepared(**inputs)
        seconds.append(time.perf_counter() - start)
        faults.append(process_memory.page_faults() - before)
    sample["faults"] = statistics.mean(sorted(faults)[:-1])  # without the worst: the system may take idle pages away
    sample["extra_of_calls"] = process_memory.peak() - loaded
    sample["seconds"] = statistics.median(seconds)
    sample["weights"] = sum(tensor.nbytes for tensor in model.state_dict().values())
    if side == sides.OURS:
        sample["memory"] = planned()
        save(folder)
    print(json.dumps(sample))


def error_of(output: Any, reference: torch.Tensor, side: str) -> float:
    outputs = flatten_outputs(output)
    if side != sides.DIRECT:
        return relative_error(outputs[0], reference)
    # A Program returns the outputs of the graph, in an order of its own.
    return min(relative_error(output, reference) for output in outputs if output.shape == reference.shape)


def save(folder: Path) -> None:
    """Saves the Program if there is exactly one and it can be saved."""
    import npugraph

    artifacts = npugraph.artifacts()
    if len(artifacts) == 1:
        with contextlib.suppress(ValueError):
            artifacts[0].save(str(folder / PROGRAM))


def load(folder: Path, model: torch.nn.Module) -> Callable[..., Any]:
    import npugraph

    return npugraph.load(str(folder / PROGRAM), model)


def planned() -> dict[str, int]:
    """Returns the planned bytes of all artifacts together."""
    import npugraph

    names = ("arena_bytes", "live_bytes", "heap_bytes", "scratch_bytes", "derived_constant_bytes")
    return {name: sum(artifact.memory[name] for artifact in npugraph.artifacts()) for name in names}


if __name__ == "__main__":
    main(*sys.argv[1:])
