# SPDX-License-Identifier: Apache-2.0
"""Graphs that write an input in place and then record an event for which the program around them waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from torch import npu

import npugraph

SIDE = npu.Stream()
DONE = npu.Event()


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    npugraph.reset()


def adds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    SIDE.wait_stream(npu.current_stream())
    with npu.stream(SIDE):
        x.add_(y)
        DONE.record()
    return y * 2


def copies(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = y * 2
    SIDE.wait_stream(npu.current_stream())
    with npu.stream(SIDE):
        x.copy_(z)
        SIDE.record_event(DONE)
    return z


def writes_a_part(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with npu.stream(SIDE):
        x[:2].mul_(y[:2])
        x[1].sub_(1)
        DONE.record()
    npu.current_stream().wait_event(DONE)
    return x + y


def reads_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = x.sin()
    SIDE.wait_stream(npu.current_stream())
    with npu.stream(SIDE):
        x.add_(y)
        event = npu.Event()
        event.record()
        x.mul_(2)
        DONE.record()
    npu.current_stream().wait_event(event)
    return before + y


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 8, generator=generator).npu() for _ in range(2)]


def written_before_the_event(artifact: npugraph.Artifact) -> bool:
    """Returns whether a task in front of the event writes the input that the program writes."""
    program = artifact.program()
    (buffer,) = re.findall(r"^  input .* (b\d+) : .* mutated$", program, re.MULTILINE)
    before, event, _ = program.partition('"npugraph_ex.record_program_event"')
    return bool(event) and re.search(rf"write (copied )?{buffer}\+", before) is not None


@pytest.mark.parametrize("function", [adds, copies, writes_a_part, reads_first])
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_write_comes_before_the_event(function: Callable[..., Any], dynamic: bool) -> None:
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True, dynamic=dynamic)
    own, given = inputs(), inputs()
    with torch.no_grad():
        for _ in range(3):
            got, want = run(*own), function(*given)
            torch.testing.assert_close(got, want)
            torch.testing.assert_close(own, given)
    (artifact,) = npugraph.artifacts()
    assert written_before_the_event(artifact)
    assert not artifact.partitions


@pytest.mark.parametrize("function", [adds, copies])
def test_who_waits_for_the_event_in_a_captured_graph_sees_the_write(function: Callable[..., Any]) -> None:
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    x, y = inputs()
    with torch.no_grad():
        run(x, y)
        graph = torch_npu.npu.NPUGraph()
        with npu.graph(graph):
            run(x, y)
            npu.current_stream().wait_event(DONE)
            seen = x.clone()
        for _ in range(2):
            own, given = [tensor.clone() for tensor in (x, y)], (x, y)
            graph.replay()
            function(*own)
            torch.testing.assert_close(given[0], own[0])
            torch.testing.assert_close(seen, own[0])
            y.add_(1)


def test_inputs_with_gradients_are_written_by_autograd() -> None:
    """Autograd writes them after the graph, so torch's own refusal stands."""

    def function(x, y):
        with npu.stream(SIDE):
            x.add_(y)
            DONE.record()
        return x.sin()

    x, y = inputs()
    with pytest.raises(Exception, match="An event was recorded on a stream where a graph input was previously mutated"):
        torch.compile(function, backend="npugraph_ex", fullgraph=True)(x, y.requires_grad_())


def test_other_backends_are_refused_as_ever() -> None:
    with torch.no_grad(), pytest.raises(Exception, match="previously mutated"):
        torch.compile(adds, backend="eager", fullgraph=True)(*inputs())
