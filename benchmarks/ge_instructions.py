# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of a call in GE mode and through ``npugraph_ex``, both with ``dynamic=True``. Both run the
same code, so the distance is what GE mode adds to a call. Counted by valgrind's callgrind on one thread, in the tiny
sizes, where a call weighs most, and with SmolLM2; nothing is timed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import processes
from benchmarks.harness import Request, Result
from benchmarks.samples.ge_instructions import SIDES

NAME = "ge_instructions"
MODELS = ("bert", "vit", "gpt2", "resnet", "llama", "smollm2")
QUICK_MODELS = ("bert",)
RATIO = "instructions of a call, torchair over npugraph_ex"
# Code that valgrind knows, which is without AVX-512, and dictionaries of equal order.
ENVIRONMENT = {
    "NPUGRAPH_TARGET": "x86-64-v3",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "PYTHONHASHSEED": "0",
}


def run(request: Request) -> Iterator[Result]:
    for model in QUICK_MODELS if request.quick else MODELS:
        if not request.wants(NAME, model):
            continue
        result = Result(NAME, model, [])
        if shutil.which("valgrind") is None:
            result.notes = dict.fromkeys(SIDES, "does not run: valgrind is not installed")
        else:
            ours, ge = (count(side, model) for side in SIDES)
            result.figures = {f"instructions of a call, {side}": n for side, n in zip(SIDES, (ours, ge), strict=True)}
            result.figures[RATIO] = ge / ours
        yield result


def count(side: str, model: str) -> float:
    """Returns the instructions of one call."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        sample = processes.run_module(
            "benchmarks.samples.ge_instructions",
            (side, model),
            environment={**os.environ, **ENVIRONMENT},
            under=valgrind,
        )
        totals = re.search(r"^totals: (\d+)", out.with_name(f"{out.name}.1").read_text(), re.MULTILINE)
    if totals is None:
        raise RuntimeError("callgrind counted nothing")
    return int(totals[1]) / sample["calls"]
