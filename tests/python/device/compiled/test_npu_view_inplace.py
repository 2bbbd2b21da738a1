# SPDX-License-Identifier: Apache-2.0
"""A graph that updates an input through a view, and copies the result back into the input, updates it in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

import npugraph
import npugraph_ex
from npugraph.fx.values import evaluate
from tests.python.device.npu_operators import on

aten, npu = torch.ops.aten, torch.ops.npu
PLACES = pytest.mark.parametrize("place", ["cpu", "npu"])
SHAPE, FLAT = (4, 8, 16), (4, 128)

# Functional operator, its other arguments, and the dtype of the cache.
UPDATES: dict[str, tuple[Any, Callable[[], tuple[Any, ...]], torch.dtype]] = {
    "scatter_update": (
        npu.scatter_update.default,
        lambda: (torch.tensor([1, 2, 3, 0]), torch.ones(4, 2), 1),
        torch.float32,
    ),
    "npu_scatter_nd_update": (
        npu.npu_scatter_nd_update.default,
        lambda: (torch.tensor([[1], [3]]), torch.ones(2, 128)),
        torch.float32,
    ),
    "npu_quant_scatter": (
        npu.npu_quant_scatter.default,
        lambda: (torch.tensor([1, 2, 3, 0]), torch.ones(4, 2), torch.tensor([0.5]), None, 1, -1, "update"),
        torch.int8,
    ),
}


def graph_of(
    name: str, cache: torch.Tensor, args: tuple[Any, ...], change: Callable[..., Any] | None = None
) -> fx.GraphModule:
    """Returns a graph with the pattern and one more result. ``change`` adds to it, given the graph, ``add`` and the
    nodes by name."""
    op = UPDATES[name][0]
    graph, mode = fx.Graph(), FakeTensorMode()

    def add(node: fx.Node, value: Any = None) -> fx.Node:
        with mode:
            node.meta["val"] = evaluate(node) if value is None else mode.from_tensor(value)
        return node

    nodes = {"cache": add(graph.placeholder("cache"), cache)}
    given = [
        add(graph.placeholder(f"arg{i}"), arg) if isinstance(arg, torch.Tensor) else arg for i, arg in enumerate(args)
    ]
    nodes["view"] = add(graph.call_function(aten.view.default, (nodes["cache"], list(FLAT))))
    nodes["update"] = add(graph.call_function(op, (nodes["view"], *given)))
    nodes["back"] = add(graph.call_function(aten.view.default, (nodes["update"], list(SHAPE))))
    nodes["result"] = add(graph.call_function(aten.neg.default, (given[1],)))
    outputs = [nodes["result"], *(change(graph, add, nodes) if change else ())]
    nodes["copy"] = add(graph.call_function(aten.copy_.default, (nodes["cache"], nodes["back"])))
    graph.output(tuple(outputs))
    return fx.GraphModule(torch.nn.Module(), graph)


def run(name: str, place: str, change: Callable[..., Any] | None = None) -> npugraph.Artifact:
    """Checks that the compiled graph leaves in the cache what the uncompiled graph does. Returns the artifact."""
    npugraph.reset()
    dtype = UPDATES[name][2]
    values = (torch.arange(4 * 8 * 16).view(SHAPE).to(dtype), *UPDATES[name][1]())
    cache, *args = on(place, values)
    expected = cache.clone()
    gm = graph_of(name, cache, tuple(args), change)
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    with torch.no_grad():
        want = gm(expected, *tensors)
        compiled = npugraph_ex.compile_fx(gm)
        got = compiled(cache, *tensors)
    torch.testing.assert_close(got, want)
    assert torch.equal(cache, expected)
    return npugraph.artifacts()[-1]


@pytest.mark.feature("2.04")
@pytest.mark.parametrize("name", UPDATES)
@PLACES
def test_the_cache_is_written_where_it_stands(name: str, place: str) -> None:
    artifact = run(name, place)
    graph = artifact.graph("import")
    assert f"npu.{name}_(" in graph and f"npu.{name}(" not in graph and "copy_" not in graph
    assert artifact.memory["copied_bytes_per_replay"] == 0
    cache_bytes = 4 * 8 * 16 * UPDATES[name][2].itemsize
    assert artifact.memory["arena_bytes"] + artifact.memory["heap_bytes"] < cache_bytes


def another_view(graph: fx.Graph, add: Any, nodes: dict[str, fx.Node]) -> list[fx.Node]:
    return [add(graph.call_function(aten.neg.default, (nodes["view"],)))]


def another_use_of_the_cache(graph: fx.Graph, add: Any, nodes: dict[str, fx.Node]) -> list[fx.Node]:
    return [add(graph.call_function(aten.neg.default, (nodes["cache"],)))]


def another_use_of_the_update(graph: fx.Graph, add: Any, nodes: dict[str, fx.Node]) -> list[fx.Node]:
    return [add(graph.call_function(aten.neg.default, (nodes["update"],)))]


def another_use_of_the_result(graph: fx.Graph, add: Any, nodes: dict[str, fx.Node]) -> list[fx.Node]:
    return [add(graph.call_function(aten.neg.default, (nodes["back"],)))]


@pytest.mark.feature("2.04")
@pytest.mark.parametrize(
    "change", [another_view, another_use_of_the_cache, another_use_of_the_update, another_use_of_the_result]
)
def test_it_stays_where_somebody_else_reads(change: Callable[..., Any]) -> None:
    graph = run("scatter_update", "npu", change).graph("import")
    assert "npu.scatter_update(" in graph and "npu.scatter_update_(" not in graph
