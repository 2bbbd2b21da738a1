# SPDX-License-Identifier: Apache-2.0
"""Graphs break at the operators that BREAK_GRAPH_OP_LIST names, and nowhere else. It is read once per process."""

from __future__ import annotations

import os

import pytest

from tests.python.forks import run_python

PROGRAM = """
import torch
import npugraph
from npugraph.backend import npugraph_ex

linear, convolution = torch.nn.Linear(8, 8).eval(), torch.nn.Conv3d(1, 1, 1).eval()


def convolve(x):
    return convolution(x.sin()[None, None, None]).cos()


def setitem(x):
    y = x.sin()
    y[0] = 1
    return y.cos()


functions = {
    "SLICE": lambda x: x.sin()[1:, ::2].cos(),
    "INDEX": lambda x: x.sin()[0].cos(),
    "SETITEM": setitem,
    "NN.LINEAR": lambda x: linear(x.sin()).cos(),
    "NN.CONV3D": convolve,
    "ADD": lambda x: x.sin() + x.cos(),
}
x = torch.randn(8, 8)
with torch.no_grad():
    for name, function in functions.items():
        torch._dynamo.reset()
        before = len(npugraph.artifacts())
        torch._dynamo.utils.counters.clear()
        result = torch.compile(function, backend="npugraph_ex")(x)
        torch.testing.assert_close(result, function(x))
        breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
        print(name, breaks, len(npugraph.artifacts()))
        npugraph.reset()
"""


def graphs_under(tokens: str | None) -> dict[str, tuple[int, int]]:
    """Returns for each function the number of breaks that Dynamo counts, and the number of compiled graphs."""
    environment = {name: value for name, value in os.environ.items() if name != "BREAK_GRAPH_OP_LIST"}
    if tokens is not None:
        environment["BREAK_GRAPH_OP_LIST"] = tokens
    run = run_python("-c", PROGRAM, env=environment)
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines()]
    return {name: (int(breaks), int(graphs)) for name, breaks, graphs in rows}


@pytest.mark.feature("10.03")
def test_graphs_break_at_what_the_list_names() -> None:
    whole, broken = (0, 1), (1, 2)
    found = graphs_under("SLICE, setitem")
    assert found == {
        "SLICE": broken,
        "INDEX": whole,
        "SETITEM": broken,
        "NN.LINEAR": whole,
        "NN.CONV3D": whole,
        "ADD": whole,
    }
    found = graphs_under("NN.CONV3D,NN.LINEAR")
    assert {name for name, counts in found.items() if counts == broken} == {"NN.LINEAR", "NN.CONV3D"}
    assert found["SLICE"] == whole


@pytest.mark.feature("10.03")
def test_names_of_no_operator() -> None:
    with pytest.raises(AssertionError, match=r"BREAK_GRAPH_OP_LIST takes SLICE, SETITEM and NN\.X.*got 'NN\.NOPE'"):
        graphs_under("SLICE,NN.NOPE")
