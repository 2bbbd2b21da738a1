# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``ddp_step``: python -m benchmarks.samples.ddp_step SIDE REFERENCE SECONDS.

Prints JSON: the median seconds of a step in steady state, the error of the first step's gradients against REFERENCE,
and for OVERLAPPED the share of the communication in which the backward pass goes on.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

from benchmarks.model_case import relative_error

RANKS = 2
LAYERS, WIDTH, ROWS = 12, 1024, 256  # rows of each rank
BUCKET_BYTES = 25 << 20  # as DistributedDataParallel's
OVERLAPPED, IN_TURN = "overlapped", "in turn"
COMPUTATION, COMMUNICATION = "computation", "communication"
DDP, DDP_INDUCTOR = "eager DDP", "inductor DDP"
WARM_UP_STEPS, LEAST_STEPS = 5, 5
WAITS = "npugraph.wait"  # the tasks that wait for collectives


class AveragedGradient(torch.autograd.Function):
    """Passes a parameter on, and averages its gradient over the ranks."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor) -> torch.Tensor:
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return functional.all_reduce(gradient, "sum", dist.group.WORLD) / RANKS


class Layers(torch.nn.Module):
    def __init__(self, *, averages: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.averages = averages

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            weight, bias = layer.weight, layer.bias
            if self.averages:
                weight, bias = AveragedGradient.apply(weight), AveragedGradient.apply(bias)
            x = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias))
        return x.square().mean()


def rows() -> torch.Tensor:
    return torch.randn(RANKS * ROWS, WIDTH, generator=torch.Generator().manual_seed(1))


@torch.enable_grad()
def gradients64() -> torch.Tensor:
    """Returns the gradients of the first step in one vector, computed in float64 by one process."""
    model = Layers(averages=False).double()
    model(rows().double()).backward()
    return gradients(model)


def gradients(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def average(tensors: Iterable[torch.Tensor]) -> None:
    """Averages tensors over the ranks in buckets, one after the other."""
    bucket: list[torch.Tensor] = []
    for tensor in [*tensors, None]:
        if tensor is None or sum(t.nbytes for t in bucket) + tensor.nbytes > BUCKET_BYTES:
            average_bucket(bucket)
            bucket = []
        if tensor is not None:
            bucket.append(tensor)


def average_bucket(bucket: Sequence[torch.Tensor]) -> None:
    whole = torch.cat([tensor.flatten() for tensor in bucket])
    dist.all_reduce(whole)
    whole /= RANKS
    for tensor, part in zip(bucket, whole.split([t.numel() for t in bucket]), strict=True):
        tensor.copy_(part.view_as(tensor))


def make_step(side: str, x: torch.Tensor) -> tuple[torch.nn.Module, Callable[[], None]]:
    model = Layers(averages=side == OVERLAPPED)
    if side == COMMUNICATION:
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        return model, lambda: average(p.grad for p in model.parameters() if p.grad is not None)
    module = DistributedDataParallel(model) if side in (DDP, DDP_INDUCTOR) else model
    backend = {DDP: None, DDP_INDUCTOR: "inductor"}.get(side, "npugraph_ex")
    loss = module if backend is None else torch.compile(module, backend=backend)

    def step() -> None:
        model.zero_grad()
        loss(x).backward()
        if side == IN_TURN:
            average(p.grad for p in reversed(list(model.parameters())) if p.grad is not None)

    return model, step


def hidden_share(step: Callable[[], None]) -> float:
    """Returns 1 - the time that tasks wait for collectives / the time from the begin to the end of each collective."""
    import npugraph

    with npugraph.task_log() as log:
        step()
    begun = [record.begin_ns for record in log if record.name == "npugraph.all_reduce"]
    waits = [record for record in log if record.name == WAITS]
    taken = sum(wait.end_ns - begin for begin, wait in zip(begun, waits, strict=True))
    return 1 - sum(wait.end_ns - wait.begin_ns for wait in waits) / taken


def run_rank(rank: int, side: str, reference: str, seconds: float, folder: str) -> None:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    model, step = make_step(side, rows().chunk(RANKS)[rank])
    step()
    exact = torch.load(reference)
    error = relative_error(gradients(model).double(), exact) if side not in (COMPUTATION, COMMUNICATION) else 0.0
    for _ in range(WARM_UP_STEPS):
        step()
    taken = []
    steps = steps_in(step, seconds)
    for _ in range(steps):
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    sample = {"seconds": statistics.median(taken), "error": error}
    if side == OVERLAPPED:
        sample["hidden"] = hidden_share(step)
    dist.destroy_process_group()
    if rank == 0:
        Path(folder, "sample.json").write_text(json.dumps(sample))


def steps_in(step: Callable[[], None], seconds: float) -> int:
    """Returns how many steps take about ``seconds``; the same number on all ranks."""
    start = time.perf_counter()
    step()
    count = torch.tensor([max(LEAST_STEPS, round(seconds / (time.perf_counter() - start)))])
    dist.broadcast(count, 0)
    return int(count)


def main(side: str, reference: str, seconds: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (side, reference, float(seconds), folder), RANKS)
        print(Path(folder, "sample.json").read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
