# SPDX-License-Identifier: Apache-2.0
"""Runs one process of ``warm_start``: python -m benchmarks.samples.warm_start save|load MODEL FOLDER.

``save`` compiles the model and leaves its Program and weights in FOLDER. ``load`` prints JSON: the seconds from the
call of ``npugraph.load`` to the first task and to the first result, and the error against FOLDER's reference.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

import npugraph
from benchmarks import machine
from benchmarks.model_case import flatten_outputs, relative_error
from benchmarks.special_models import SPECIAL


@torch.no_grad()
def main(what: str, name: str, folder_name: str) -> None:
    machine.use_pinned_threads()
    folder, case = Path(folder_name), SPECIAL[name]
    model, inputs = case.build("base"), case.inputs(size="base")
    if what == "save":
        torch.compile(model, backend="npugraph_ex")(**inputs)
        npugraph.artifacts()[-1].save(str(folder / "program"))
        torch.save(model.state_dict(), folder / "weights.pt")
        print(json.dumps({}))
        return
    model.load_state_dict(torch.load(folder / "weights.pt", mmap=True), assign=True)
    print(json.dumps(start(model, inputs, folder)))


def start(model: torch.nn.Module, inputs: dict[str, object], folder: Path) -> dict[str, object]:
    with npugraph.task_log() as records:
        begin = time.monotonic_ns()
        run = npugraph.load(str(folder / "program"), model)
        loaded = time.monotonic_ns()
        outputs = run(**inputs)
        end = time.monotonic_ns()
    first = min(record.begin_ns for record in records)
    reference = torch.load(folder / "reference.pt")[0]
    return {
        "seconds": (end - begin) / 1e9,
        "first_task": (first - begin) / 1e9,
        "parts": f"load {(loaded - begin) / 1e6:.1f} ms, first call to its first task {(first - loaded) / 1e6:.1f} ms, "
        f"tasks {(end - first) / 1e6:.1f} ms",
        "error": relative_error(flatten_outputs(outputs)[0], reference),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
