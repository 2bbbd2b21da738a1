# SPDX-License-Identifier: Apache-2.0
"""Measures a training step on two processes that average their gradients: gloo, one core each.

``overlapped`` is our compiled backward graph with the all-reduces in it, joined into buckets, which travel while the
backward pass goes on. ``in turn`` sends the same buckets behind the backward pass. ``computation`` is the step without
communication, ``communication`` the buckets alone. DistributedDataParallel runs eagerly and under Inductor. Every
sample is a fresh pair of processes. The error is that of the averaged gradients against float64.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import processes, sides
from benchmarks.harness import Request, Result
from benchmarks.samples import ddp_step as sample

NAME = "ddp_step"
CASE = f"{sample.LAYERS} layers of {sample.WIDTH}"
SIDES = {
    "eager": sample.DDP,
    "inductor": sample.DDP_INDUCTOR,
    sides.OURS: sample.OVERLAPPED,
}
ROUNDS, QUICK_ROUNDS = 5, 1
SECONDS = 3  # of timed steps in a process
OVERLAP = "overlapped, over computation and communication one after the other"
HIDDEN = "share of the communication in which the backward pass goes on"


def run(request: Request) -> Iterator[Result]:
    if not request.wants(NAME, CASE):
        return
    names = [name for side, name in SIDES.items() if side in request.sides]
    if sides.OURS in request.sides:
        names += [sample.IN_TURN, sample.COMPUTATION, sample.COMMUNICATION]
    hidden: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "gradients.pt"
        torch.save(sample.gradients64(), reference)

        def take(side: str) -> processes.Sample:
            taken = processes.run_module("benchmarks.samples.ddp_step", (side, reference, SECONDS))
            hidden.extend([taken["hidden"]] if side == sample.OVERLAPPED else [])
            return taken

        result = processes.compare(NAME, CASE, names, QUICK_ROUNDS if request.quick else ROUNDS, take)
    result.baseline = sample.DDP
    parts = [result.side(name) for name in (sample.OVERLAPPED, sample.COMPUTATION, sample.COMMUNICATION)]
    if all(parts):
        whole, computation, communication = (part.median for part in parts if part)
        result.figures[OVERLAP] = whole / (computation + communication)
        result.figures[HIDDEN] = sum(hidden) / len(hidden)
    yield result
