# SPDX-License-Identifier: Apache-2.0
"""Graphs of GE on npu: where inputs are placed, streams, the kind of the executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401

import npugraph
import torchair
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.fx2ge_converter import GeConcreteGraph
from torchair._ge_concrete_graph.ge_graph import GeGraph
from torchair.ge import DataType

X, Y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])


def add(graph: Any) -> Any:
    """Makes ``graph`` that of x + y."""
    with graph.context():
        x, y = (ge.Data(index=i, dtype=DataType.DT_FLOAT, shape=[2], node_name=name) for i, name in enumerate("xy"))
        ge.NetOutput([ge.Add(x, y)])
    return graph


@pytest.fixture
def loaded() -> GeGraph:
    graph = add(GeGraph(name="sum"))
    graph.load()
    graph.compile()
    return graph


@pytest.mark.feature("6.44")
def test_results_are_where_the_executor_is(loaded: GeGraph) -> None:
    (result,) = loaded.run([X.npu(), Y.npu()])
    assert result.device == torch.device("npu:0") and torch.equal(result.cpu(), X + Y)


@pytest.mark.feature("11.14")
def test_an_input_on_the_wrong_device_is_an_error(loaded: GeGraph) -> None:
    with pytest.raises(RuntimeError, match=r"input 1 of graph 'sum' is placed on npu, got .* on the host \(cpu\)"):
        loaded.run([X.npu(), Y])
    host = add(GeGraph(name="of host"))
    for op in host.op:
        for desc in (*op.input_desc, *op.output_desc):
            desc.device_type = "CPU"
    host.load()
    host.compile()
    with pytest.raises(RuntimeError, match=r"input 0 of graph 'of host' is placed on the host, got .* npu \(npu:0\)"):
        host.run([X.npu(), Y])


@pytest.mark.feature("6.42")
def test_a_run_is_on_the_stream_that_it_is_given(loaded: GeGraph) -> None:
    stream = torch.npu.Stream()
    x, y = X.npu(), Y.npu()
    with npugraph.task_log() as tasks:
        loaded.run([x, y])
        (result,) = loaded.run([x, y], stream=stream)
    stream.synchronize()
    assert torch.equal(result.cpu(), X + Y)
    assert [task.stream_id for task in tasks] == [torch.npu.current_stream().stream_id, stream.stream_id]


@pytest.mark.feature("6.27")
def test_options_of_the_graph_say_that_it_runs_on_npu() -> None:
    graph = add(GeConcreteGraph(torchair.CompilerConfig(), name="sum"))
    assert torch.equal(graph(X.npu(), Y.npu())[0].cpu(), X + Y)
    assert graph.graph.executor.options["ge.exec.reuseZeroCopyMemory"] == "1"


@torch.no_grad()
def test_a_scalar_of_the_host_meets_tensors_of_npu() -> None:
    fast = torch.compile(lambda x, s: x * s + s, backend=torchair.get_npu_backend())
    x, s = X.npu(), torch.tensor(3.0)
    result = fast(x, s)
    assert result.device == x.device and torch.equal(result.cpu(), X * 3 + 3)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns a function that returns the warnings of the log about streams since its last call."""

    def texts() -> list[str]:
        found = [record.getMessage() for record in caplog.records if "on stream" in record.getMessage()]
        caplog.clear()
        return found

    return texts


def test_a_run_on_another_stream_than_that_of_the_load_is_told_once(
    loaded: GeGraph, said: Callable[[], list[str]]
) -> None:
    x, y, stream = X.npu(), Y.npu(), torch.npu.Stream()
    loaded.run([x, y])
    assert said() == []
    for _ in range(2):
        (result,) = loaded.run([x, y], stream=stream)
    stream.synchronize()
    assert torch.equal(result.cpu(), X + Y)
    (text,) = said()
    load = torch.npu.default_stream().stream_id
    assert text.startswith(
        f"graph sum runs on stream {stream.stream_id} of npu:0, and it was loaded on stream {load}; "
    )


def sorted_(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x)[0]


ONE = {
    "whole": lambda x: x + 1,
    "one part": lambda x: sorted_(x) + 1,
    "two parts": lambda x: sorted_(x + 2) - 1,
}


@pytest.mark.parametrize("case", ONE)
@torch.no_grad()
def test_a_call_on_another_stream_than_that_of_the_first_one_is_told_once(
    case: str, said: Callable[[], list[str]]
) -> None:
    npugraph.reset()
    fast, x = torch.compile(ONE[case], backend=torchair.get_npu_backend()), X.npu()
    first, other = torch.npu.Stream(), torch.npu.Stream()
    told = []
    for stream in (first, first, other, other):
        with torch.npu.stream(stream):
            result = fast(x)
        assert torch.equal(result.cpu(), X + 1)
        told.append(len(said()))
    assert told == [0, 0, 1, 0]
    fast_on_host = torch.compile(lambda x: x * 2, backend=torchair.get_npu_backend())
    for stream in (first, other):
        with torch.npu.stream(stream):
            fast_on_host(X)
    assert said() == []
