# SPDX-License-Identifier: Apache-2.0
"""Budgets of graphs: ``npugraph.testing.assert_graph``, and the pytest plugin that gives it as a fixture."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import npugraph
import npugraph_ex
from npugraph.fx.passes.replacements import registry
from npugraph.testing import assert_graph
from tests.python.forks import run_python

pytest_plugins = ["pytester"]


class Cached(torch.nn.Module):
    """Writes a cache in place, reads one result in several places, and has arithmetic that fuses."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x):
        h = torch.relu(self.linear(x)) * 2 + 1
        self.cache[1:2] = h[:1]
        return h.softmax(-1), torch.cat([h, x]).sort(0).values


COPY = f"{__file__}:{Cached.forward.__code__.co_firstlineno + 2} in forward"


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    assert not npugraph.artifacts()


@pytest.fixture
def x():
    return torch.randn(3, 8)


def refused(*arguments, **budget) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_graph(*arguments, **budget)
    return str(caught.value)


def test_a_model_within_its_budget(x) -> None:
    artifacts = assert_graph(Cached(), [x], copied_bytes=1000, captures=1, tasks_at_most=8, graphs=1)
    assert [a.counters["replays"] for a in artifacts] == [2]
    assert len(assert_graph(Cached(), (x,), copied_bytes=1000)) == 1  # an earlier compile does not count


def test_too_many_tasks_are_listed_with_their_lines(x) -> None:
    text = refused(Cached(), [x], tasks_at_most=1)
    (artifact,) = assert_graph(Cached(), [x])
    count = len(artifact.tasks)
    lines = text.splitlines()
    assert lines[:2] == [
        "the graphs of Cached do not keep within their budget",
        f"  tasks_at_most: {count} found, 1 allowed",
    ]
    assert len(lines) == 2 + count
    for line, task in zip(lines[2:], artifact.tasks, strict=True):
        assert f"{task.name}  {task.source}" in line


def test_copies_are_named(x) -> None:
    (artifact,) = assert_graph(Cached(), [x])
    copied = artifact.memory["copied_bytes_per_replay"]
    assert sum(task.bytes_copied for task in artifact.tasks) == copied > 0
    text = refused(Cached(), [x], copied_bytes=copied - 1)
    assert f"  copied_bytes: {copied} found, {copied - 1} allowed" in text
    (line,) = (line for line in text.splitlines() if COPY in line)
    assert re.search(r"aten\.copy_: 32 bytes of copy_?\w*  ", line)


def test_staged_arguments_are_named_too() -> None:
    def plus_one(x):
        return x + 1

    text = refused(plus_one, [torch.randn(3, dtype=torch.complex64).conj()], copied_bytes=0)
    assert text.splitlines()[1:] == [
        "  copied_bytes: 24 found, 0 allowed",
        "        24 bytes of arguments and results of plus_one_0 that had to be staged",
    ]


def test_captures_are_listed() -> None:
    class Growing(torch.nn.Module):
        calls = 0

        def forward(self, x):
            return x.sin() + 1

    model = Growing()
    text = refused(lambda x: (model(x), torch._dynamo.graph_break(), x.cos())[2], [torch.randn(3)], captures=1)
    assert "  captures: 2 found, 1 allowed" in text
    assert len(re.findall(r": 1 for its only sizes", text)) == 2


def test_graph_breaks_are_graphs(x) -> None:
    def broken(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    assert "  graphs: 2 found, 1 allowed\n    <npugraph.Artifact broken_0" in refused(broken, [x], graphs=1)


def test_what_is_fused(x) -> None:
    def arithmetic(x):
        return x.softmax(-1) * 2 + 1

    (artifact,) = assert_graph(arithmetic, [x])
    (task,) = artifact.tasks
    assert_graph(arithmetic, [x], fused=[task.name])
    text = refused(arithmetic, [x], fused=["npu_add_rms_norm"])
    assert text.splitlines()[1:] == ["  fused: npu_add_rms_norm is not there", f"    there are: {task.name}"]

    def attention(q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    assert_graph(attention, [torch.randn(1, 2, 8, 16)], options={"name": "attention"})


def test_rules_that_were_used_and_that_nearly_were(x) -> None:
    def sin_plus(x, y):
        return torch.sin(x) + y

    def plus_sin(x, y):
        return y + torch.sin(x)

    def model(x):
        return torch.sin(x) + x.cos()

    def register(**arguments):
        npugraph_ex.register_replacement(sin_plus, plus_sin, (torch.empty(2), torch.empty(2)), **arguments)
        return next(rule for rule in registry.rules() if rule.name == "sin_plus")

    rule = register()
    assert_graph(model, [x], fused=["sin_plus"])
    rule.remove()
    rule = register(extra_check=lambda match: False)
    text = refused(model, [x], fused=["sin_plus"])
    rule.remove()
    line = f"{__file__}:{model.__code__.co_firstlineno + 1} in model"
    assert f"    sin_plus nearly matched at add  {line}: does not hold: extra_check" in text


def test_graphs_that_are_not_there(x) -> None:
    text = refused(lambda x: x, [x])
    assert text.splitlines()[1] == "  nothing was compiled: the model calls no operator that a graph could hold"


def test_inputs_are_a_list(x) -> None:
    with pytest.raises(TypeError, match=r"^assert_graph: inputs is a list or tuple of arguments, got Tensor$"):
        assert_graph(Cached(), x)


@pytest.mark.parametrize(
    "budget, message",
    [
        ({"fused": "relu"}, "fused is a list of names, got the text 'relu'"),
        ({"copied_bytes": "x"}, r"copied_bytes is a number, got 'x' \(str\)"),
        ({"graphs": True}, r"graphs is a number, got True \(bool\)"),
    ],
)
def test_budgets_are_checked(x, budget, message) -> None:
    with pytest.raises(TypeError, match=f"^assert_graph: {message}$"):
        assert_graph(Cached(), [x], **budget)


def test_options_are_checked(x) -> None:
    with pytest.raises(ValueError, match="did you mean 'force_eager'"):
        assert_graph(Cached(), [x], options={"force_eagre": True})


INNER = """
import torch

def model(x):
    return x.sort(0).values + 1

def test_within(assert_graph):
    assert assert_graph(model, [torch.randn(3, 8)], tasks_at_most=2)[0].name == "model_0"

def test_beyond(assert_graph):
    assert_graph(model, [torch.randn(3, 8)], tasks_at_most=1)
"""


def test_the_plugin(pytester, monkeypatch) -> None:
    """A failure shows the budget, and not the code that checks it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_inner=INNER)
    result = pytester.runpytest_subprocess("-p", "npugraph_pytest")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E   * AssertionError: the graphs of model do not keep within their budget",
            "E   *  tasks_at_most: 2 found, 1 allowed",
            "E   *    0 aten.sort *test_inner.py:4 in model*",
        ]
    )
    result.stdout.no_fnmatch_line("*_compile_and_run*")


def test_loading_the_plugin_imports_nothing() -> None:
    """Where npugraph is installed, every run of pytest loads the plugin."""
    check = "import sys, npugraph_pytest; print([m for m in ('torch', 'npugraph') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout == "[]\n"


def test_the_function_needs_no_import_of_its_own() -> None:
    check = "import npugraph; print(npugraph.testing.assert_graph.__name__)"
    assert run_python("-c", check).stdout == "assert_graph\n"
