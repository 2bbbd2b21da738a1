# SPDX-License-Identifier: Apache-2.0
"""Measures the passes over a graph of small operators: 100 layers of a dozen operators each, where a pass that looks at
all pairs of nodes would stand out. One side has the graph passes alone, as most graphs are compiled. The other has all
FX passes before them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import processes
from benchmarks.harness import Request, Result
from benchmarks.samples.pass_time import SIDES

NAME = "pass_time"
CASE = "100 layers of small operators"
PER_100_NODES = "ms of passes per 100 nodes, all FX passes on"
GRAPH_PASSES = "ms of graph passes per 100 nodes"


def run(request: Request) -> Iterator[Result]:
    if not request.wants(NAME, CASE):
        return
    taken: dict[str, processes.Sample] = {}

    def take(side: str) -> processes.Sample:
        taken[side] = processes.run_module("benchmarks.samples.pass_time", (side,))
        return taken[side]

    result = processes.compare(NAME, CASE, SIDES, request.samples, take)
    result.baseline = SIDES[0]
    for figure, side in ((GRAPH_PASSES, SIDES[0]), (PER_100_NODES, SIDES[1])):
        if side in taken:
            seconds = next(s.median for s in result.sides if s.name == side)
            result.figures[figure] = seconds * 1e3 / taken[side]["nodes"] * 100
    yield result
