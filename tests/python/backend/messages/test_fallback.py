# SPDX-License-Identifier: Apache-2.0
"""A defect of npugraph costs the user speed, but the program still works: the graph runs as torch made it, and one
warning says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
from npugraph.driver import graph_target
from tests.python.backend.checks import assert_same, compile_ex


@pytest.fixture(autouse=True)
def reports(tmp_path, monkeypatch) -> Path:
    """Returns the folder into which reports are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["import_graph", "prepare"])
def broken(request, monkeypatch) -> None:
    def fail(*args):
        raise AssertionError("something unforeseen")

    monkeypatch.setattr(graph_target, request.param, fail)


def test_inference_works_after_a_defect_with_one_warning(broken) -> None:
    def fn(x):
        x.add_(1)
        return x * 2, x.t()

    compiled = compile_ex(fn, dynamic=True)
    with torch.no_grad(), pytest.warns(npugraph.DefectWarning) as caught:
        for n in (3, 5):
            own, given = torch.ones(n, 2), torch.ones(n, 2)
            assert_same((compiled(own), own), (fn(given), given))
    (warning,) = caught
    assert "report" in str(warning.message)
    assert "AssertionError: something unforeseen" in str(warning.message)
    assert counters["npugraph_ex"] == {"fallbacks": 1}
    assert npugraph.artifacts() == []


def test_training_works_after_a_defect(broken) -> None:
    def fn(x):
        return (x.sin() * x).sum()

    own = torch.randn(3, requires_grad=True)
    given = own.detach().clone().requires_grad_()
    with pytest.warns(npugraph.DefectWarning):
        compile_ex(fn)(own).backward()
    fn(given).backward()
    assert_same(own.grad, given.grad)
    assert counters["npugraph_ex"] == {"fallbacks": 2}


def test_a_failure_of_the_core(monkeypatch) -> None:
    def fail(*args):
        raise RuntimeError("internal error: an invariant")

    monkeypatch.setattr(graph_target, "compile_imported", fail)
    with pytest.warns(npugraph.DefectWarning, match="an invariant"):
        assert torch.equal(compile_ex(lambda x: x + 1)(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.parametrize("training", [False, True])
def test_the_warning_is_short_and_names_a_file_with_the_rest(monkeypatch, reports, training) -> None:
    def fail(*args):
        raise RuntimeError("an invariant\n" + "%1 = aten.add(%0)\n" * 150)

    def fn(x):
        for _ in range(60):
            x = x.sin() * 2
        return x

    monkeypatch.setattr(graph_target, "compile_imported", fail)
    with pytest.warns(npugraph.DefectWarning) as caught:
        compile_ex(fn)(torch.ones(3, requires_grad=training))
    lines = str(caught[0].message).splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("RuntimeError: an invariant")
    report = reports / lines[1].removeprefix("All of it is in ")
    text = report.read_text()
    assert text.count("aten.add(%0)") >= 150
    assert "in fail" in text  # the traceback
    assert text.count("torch.ops.aten.sin.default") == 60


def test_a_graph_that_no_code_can_be_written_of(monkeypatch, reports) -> None:
    def no_code(*args, **kwargs):
        raise AttributeError("a target without a name")

    def fail(*args):
        # From here on, because Dynamo prints the graph before if something listens to its logs.
        monkeypatch.setattr(torch.fx.GraphModule, "print_readable", no_code)
        raise RuntimeError("an invariant")

    monkeypatch.setattr(graph_target, "compile_imported", fail)
    with pytest.warns(npugraph.DefectWarning) as caught:
        assert torch.equal(compile_ex(lambda x: x + 1)(torch.ones(3)), torch.full((3,), 2.0))
    report = reports / str(caught[0].message).splitlines()[1].removeprefix("All of it is in ")
    assert "aten.add.Tensor" in report.read_text()


def test_mistakes_of_the_user_are_no_defects() -> None:
    with pytest.raises(ValueError, match="unknown option"):
        compile_ex(lambda x: x + 1, options={"nope": 1})(torch.ones(3))
    assert "fallbacks" not in counters["npugraph_ex"]
