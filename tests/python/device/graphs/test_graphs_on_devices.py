# SPDX-License-Identifier: Apache-2.0
"""Captured graphs where there are several devices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.python.device.captures import captured


def test_captures_follow_the_current_device():
    graphs = []
    for index in (0, 1, 0, 1):
        with torch.npu.device(index):
            x = torch.ones(4, device="npu")
            graph, y = captured(lambda x=x: x + 1)
        assert y.device.index == torch.npu.graph.default_capture_stream.device_index == index
        graphs.append((graph, x, y))
    for graph, x, y in graphs:
        x.fill_(8)
        graph.replay()
        assert y.tolist() == [9] * 4


@pytest.mark.parametrize("capturing, source, target", [(0, 0, 1), (0, 1, 0), (1, 0, 1)])
def test_copies_between_devices_are_recorded(capturing: int, source: int, target: int):
    x = torch.ones(4, device=f"npu:{source}")
    out = torch.zeros(4, device=f"npu:{target}")

    def fn() -> torch.Tensor:
        out.copy_(x)
        return x.to(out.device, non_blocking=True)

    with torch.npu.device(capturing):
        graph, made = captured(fn)
    assert out.tolist() == [0] * 4
    for value in (5, 7):
        x.fill_(value)
        graph.replay()
        assert out.tolist() == made.tolist() == [value] * 4


def test_callables_are_graphed_on_the_device_of_their_arguments():
    captured(lambda: torch.ones(1, device="npu:0") + 1)  # captures in a stream of npu:0
    torch.manual_seed(0)
    linear = nn.Linear(2, 2).to("npu:1")
    x = torch.ones(2, 2, device="npu:1")
    wanted = nn.functional.linear(x * 3, linear.weight, linear.bias)
    graphed = torch.npu.make_graphed_callables(linear, (x.clone(),))
    y = graphed(x * 3)
    assert y.device.index == 1 and torch.equal(y, wanted)
    y.sum().backward()
    assert torch.equal(linear.weight.grad, torch.full((2, 2), 6.0, device="npu:1"))
    assert torch.npu.current_device() == 0


def test_an_empty_graph_warns():
    x = torch.ones(4, device="npu:1")
    with pytest.warns(UserWarning, match=r"the graph is empty: nothing was launched in stream \d+ of npu:0"):
        graph, y = captured(lambda: x + 1)
    graph.replay()
    assert y.tolist() == [2] * 4
