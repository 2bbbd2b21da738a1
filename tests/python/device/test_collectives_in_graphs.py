# SPDX-License-Identifier: Apache-2.0
"""Collectives in compiled graphs, over gloo on cpu and hccl on npu, between two processes.

Functions without ``test_`` run in each process. Values are small whole numbers, so that all sums are exact.
"""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import npugraph
from tests.python.device.ranks import Ranks

DEVICES = ["cpu", "npu"]
BACKEND = "cpu:gloo,npu:hccl"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"), BACKEND)
    yield ranks
    ranks.close()


def data(rank: int, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 6, shape, generator=generator).float()


def compiled_and_eager(function, *args: torch.Tensor, fullgraph: bool = True, **kwargs):
    """Results of both; writes to arguments are results, too. Every node of the compiled graph is a task."""
    torch._dynamo.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        compiled = torch.compile(function, backend="npugraph_ex", fullgraph=fullgraph, **kwargs)
        own, given = [[x.clone() for x in args] for _ in range(2)]
        results = [(run(*inputs), inputs) for run, inputs in ((compiled, own), (function, given))]
        for _ in range(2):
            torch.testing.assert_close(compiled(*(x.clone() for x in args)), results[0][0], rtol=0, atol=0)
    return results


def check_same(function, *args: torch.Tensor, **kwargs) -> None:
    own, given = compiled_and_eager(function, *args, **kwargs)
    torch.testing.assert_close(own, given, rtol=0, atol=0)


def operators() -> set[str]:
    return {task.name for artifact in npugraph.artifacts() for task in artifact.tasks if task.kind == "collective"}


def check_functional(device: str) -> None:
    group = dist.group.WORLD
    x = data(dist.get_rank(), 4, 3).to(device)

    def function(x):
        a = functional.all_reduce(x, "sum", group)
        b = functional.all_gather_tensor(x + 1, 0, group)
        c = functional.reduce_scatter_tensor(x * 2, "sum", 0, group)
        d = functional.all_to_all_single(x - 1, None, None, group)
        e = functional.broadcast(x.exp(), 1, group)
        f = functional.all_reduce_coalesced([x, x[0] + 3], "max", group)
        g = functional.all_gather_into_tensor_coalesced([x, x[0]], group)
        h = functional.reduce_scatter_tensor_coalesced([x, x.t().contiguous()[:2]], "sum", [0, 0], group)
        return [a * 2, b.sum(0), c + 1, d.neg(), e, *f, *g, *h, functional.all_gather_tensor(x.t(), 1, group)]

    check_same(function, x)
    names = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "wait"]
    assert operators() == {f"npugraph.{name}" for name in names}
    artifact = npugraph.artifacts()[-1]
    torch.testing.assert_close(artifact.to_fx()(x), list(function(x)) and tuple(function(x)))


@pytest.mark.feature("8.02")
@pytest.mark.parametrize("device", DEVICES)
def test_functional_collectives(ranks, device):
    ranks(check_functional, device)


def check_rewritten(device: str) -> None:
    rank = dist.get_rank()
    x = data(rank, 4, 3).to(device)

    def function(x):
        y = x + 1
        dist.all_reduce(y)
        gathered = x.new_empty(8, 3)
        dist.all_gather_into_tensor(gathered, x)
        scattered = x.new_empty(2, 3)
        dist.reduce_scatter_tensor(scattered, y)
        moved = torch.empty_like(x)
        dist.all_to_all_single(moved, y)
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x * 3)
        return y * 2, gathered, scattered, moved, parts

    check_same(function, x)
    check_same(lambda x: dist.all_reduce(x, dist.ReduceOp.MAX), x)  # writes its input


@pytest.mark.feature("8.01")
@pytest.mark.parametrize("device", DEVICES)
def test_collectives_that_write(ranks, device):
    ranks(check_rewritten, device)


class Layers(torch.nn.Module):
    """Six parameters; their gradients are summed over all ranks as they come about."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            weight, bias = (SummedGradient.apply(p) for p in (layer.weight, layer.bias))
            x = torch.tanh(torch.nn.functional.linear(x, weight, bias))
        return x


class SummedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, parameter):
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx, gradient):
        return functional.all_reduce(gradient, "sum", dist.group.WORLD) / dist.get_world_size()


def check_bucketed(device: str) -> None:
    torch._dynamo.reset()
    rank, size = dist.get_rank(), dist.get_world_size()
    x = data(0, 8, 8) / 6
    net, alone = Layers().to(device), Layers()
    compiled = torch.compile(net, backend="npugraph_ex", fullgraph=True)
    for _ in range(2):
        compiled(x.chunk(size)[rank].to(device)).square().mean().backward()
    backward = next(a for a in npugraph.artifacts() if a.name.endswith("backward"))
    reduces = [task for task in backward.tasks if task.name == "npugraph.all_reduce"]
    assert len(reduces) == 1 < len(list(net.parameters()))
    with npugraph.task_log() as log:
        compiled(x.chunk(size)[rank].to(device)).square().mean().backward()
    assert str(log).count("npugraph.all_reduce") == 1
    for layer in alone.layers:
        x = torch.tanh(layer(x))
    x.square().mean().backward()
    for own, wanted in zip(net.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(own.grad.cpu(), 3 * wanted.grad)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_travel_together(ranks, device):
    ranks(check_bucketed, device)
