# SPDX-License-Identifier: Apache-2.0
"""Collectives in graphs of GE mode, over gloo on cpu and hccl on npu, between two processes.

Functions without ``test_`` run in each process. Values are small whole numbers, so that all sums are exact.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch_npu  # noqa: F401 (makes npu a device)
from torch.distributed import _functional_collectives as functional

import npugraph
import torchair
from npugraph.ge.backend import target
from tests.python.device.ranks import Ranks

DEVICES = ["cpu", "npu"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"), "cpu:gloo,npu:hccl")
    yield ranks
    ranks.close()


def data(*shape: int) -> torch.Tensor:
    return torch.randint(0, 6, shape, generator=torch.Generator().manual_seed(dist.get_rank())).float()


def check(function: Callable[..., Any], *inputs: torch.Tensor, **how: Any) -> list[str]:
    """Compares calls with eager mode. Returns the types of the collectives in the dump of the only graph."""
    config = torchair.CompilerConfig()
    config.debug.missing_converters = "error"
    graphs: list[Any] = []

    class Noted(target.GeConcreteGraph):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            graphs.append(self.graph)

    plain, target.GeConcreteGraph = target.GeConcreteGraph, Noted
    torch._dynamo.reset()
    npugraph.reset()
    try:
        fast = torch.compile(function, backend=torchair.get_npu_backend(config), fullgraph=True, **how)
        theirs = [x.clone() for x in inputs]
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(fast(*inputs), function(*theirs), rtol=0, atol=0)
            torch.testing.assert_close(list(inputs), theirs, rtol=0, atol=0)
    finally:
        target.GeConcreteGraph = plain
    (graph,) = graphs
    return [op.type for op in graph.op if op.type.startswith("Hcom")]


def tasks() -> collections.Counter[str]:
    (artifact,) = npugraph.artifacts()
    return collections.Counter(task.name for task in artifact.tasks if task.kind == "collective")


def check_functional(device: str, dynamic: bool) -> None:
    group = dist.group.WORLD

    def function(x):
        a = functional.all_reduce(x, "sum", group)
        b = functional.all_gather_single(x + 1, 0, group)
        c = functional.reduce_scatter_single(x * 2, "max", 0, group)
        d = functional.broadcast(x.neg(), 1, group)
        return a * 2, b.sum(0), c + 1, d

    types = check(function, data(4, 3).to(device), dynamic=dynamic)
    assert types == ["HcomAllReduce", "HcomAllGather", "HcomReduceScatter", "HcomBroadcast"]
    names = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
    assert tasks() == {**{f"npugraph.{name}": 1 for name in names}, "npugraph.wait": 4}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_functional_collectives(ranks, device, dynamic):
    ranks(check_functional, device, dynamic)


def check_exchanges(device: str) -> None:
    group = dist.group.WORLD

    def function(x):
        even = functional.all_to_all_single(x - 1, None, None, group)
        return even, functional.all_to_all_single(x, [3, 1] if dist.get_rank() == 0 else [1, 3], [3, 1], group)

    x = data(4, 3).to(device)
    if dist.get_rank():
        check_of_second_rank(x)
        return
    assert check(function, x) == ["HcomAllToAllV", "HcomAllToAllV"]


def check_of_second_rank(x: torch.Tensor) -> None:
    group = dist.group.WORLD

    def function(x):
        even = functional.all_to_all_single(x - 1, None, None, group)
        return even, functional.all_to_all_single(x, [1, 3], [1, 3], group)

    check(function, x)


@pytest.mark.parametrize("device", DEVICES)
def test_exchanges(ranks, device):
    ranks(check_exchanges, device)


def check_legacy() -> None:
    group = ("", [0, 1], 2)

    def function(x):
        legacy = torch.ops.c10d_functional
        a = legacy.wait_tensor(legacy.all_reduce(x, "sum", *group))
        return a, legacy.wait_tensor(legacy.all_gather_into_tensor(x, *group))

    assert check(function, data(4, 3)) == ["HcomAllReduce", "HcomAllGather"]


def test_legacy_collectives(ranks):
    ranks(check_legacy)


def check_of_ascend(device: str) -> None:
    define, rank = torch.ops.npu_define, dist.get_rank()
    group, rows = ("", [0, 1], 2), [1, 3]
    x, piece = data(4, 3).to(device), data(rows[rank], 3).to(device)

    def function(x, piece):
        return [
            *define.allgather(x, *group),
            define.allgather_in_tensor(x.new_empty(4, 6), x, *group),
            define.broadcast(x, 1, *group),
            define.all_to_all_single_npu(x, None, None, *group),
            define.allgather_in_tensor_uneven(piece, rows, *group),
            define.reduce_scatter_tensor_uneven(x, "max", rows, *group),
        ]

    types = check(function, x, piece)
    names = ["AllGather", "AllGather", "Broadcast", "AllToAll", "AllGatherV", "ReduceScatterV"]
    assert types == [f"Hcom{name}" for name in names]


@pytest.mark.parametrize("device", DEVICES)
def test_collectives_of_ascend(ranks, device):
    ranks(check_of_ascend, device)


def check_rewritten(device: str) -> None:
    def function(x):
        y = x + 1
        dist.all_reduce(y)
        gathered = x.new_empty(8, 3)
        dist.all_gather_into_tensor(gathered, x)
        return y * 2, gathered

    assert check(function, data(4, 3).to(device)) == ["HcomAllReduce", "HcomAllGather"]


@pytest.mark.parametrize("device", DEVICES)
def test_collectives_that_write(ranks, device):
    ranks(check_rewritten, device)


def check_eager_parts() -> None:
    """A wait for a collective that runs eagerly is eager, too."""
    torch._dynamo.reset()

    def function(x):
        return functional.all_reduce(x + 1, "band", dist.group.WORLD) * 2

    fast = torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True)
    x = torch.arange(6) + dist.get_rank()
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), function(x))


def test_collectives_without_a_converter_run_eagerly(ranks):
    ranks(check_eager_parts)
