# SPDX-License-Identifier: Apache-2.0
"""Measures how much longer ``import torch`` takes if torch_npu is there. Each sample is a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import processes
from benchmarks.harness import Request, Result
from benchmarks.samples.import_time import SIDES

NAME = "import_time"
CASE = "import torch"


def run(request: Request) -> Iterator[Result]:
    if not request.wants(NAME, CASE):
        return
    result = processes.compare(
        NAME, CASE, SIDES, request.samples, lambda side: processes.run_module("benchmarks.samples.import_time", (side,))
    )
    result.baseline = SIDES[0]
    yield result
