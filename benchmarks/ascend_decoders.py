# SPDX-License-Identifier: Apache-2.0
"""Measures decode steps of serving programs for Ascend (``ascend_programs``) on npu: in GE mode, through npugraph_ex
and in eager mode, in turns. The three sides run in one process, into which torch has loaded torch_npu."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import processes
from benchmarks.harness import Request, Result, SideResult
from benchmarks.sides import OURS

NAME = "ascend_decoders"
GE = "torchair"
CASES = ("dense", "mixture", "latent")
COPIED = "bytes that a step in GE mode copies"
PYTHON = processes.ROOT / "scripts/npu_python"


def run(request: Request) -> Iterator[Result]:
    for case in CASES:
        if request.wants(NAME, case):
            taken = processes.run_module(f"benchmarks.samples.{NAME}", (case, request.samples), python=str(PYTHON))
            sides = [SideResult(side, seconds, error=0.0) for side, seconds in taken["seconds"].items()]
            yield Result(NAME, case, sides, baseline=OURS, figures={COPIED: taken["copied"][GE]})
