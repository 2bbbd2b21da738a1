# SPDX-License-Identifier: Apache-2.0
"""The backends of torch.compile that come with torch_npu: ``npu`` and ``npugraphs``."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch._dynamo.backends.registry import list_backends

import npugraph

pytestmark = pytest.mark.feature("11.19")

X = torch.randn(4, 8, device="npu")


@pytest.fixture(autouse=True)
def fresh():
    npugraph.reset()
    with torch.no_grad():
        yield


def fn(x):
    return torch.softmax(x.sin() * 2 + 1, -1)


def said(backend: str, **arguments) -> list[str]:
    """Returns the warnings of a compile, and checks its results."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = torch.compile(fn, backend=backend, fullgraph=True, **arguments)
        for _ in range(2):
            torch.testing.assert_close(compiled(X), fn(X))
    return [str(w.message) for w in caught if issubclass(w.category, npugraph.NpugraphWarning)]


def test_they_are_found_by_name():
    assert {"npu", "npugraph_ex", "npugraphs"} <= set(list_backends())


@pytest.mark.feature("6.01")
def test_npu_is_the_default_of_torchair():
    compiled = torch.compile(fn, backend="npu", fullgraph=True)
    with npugraph.task_log() as tasks:
        for _ in range(2):
            torch.testing.assert_close(compiled(X), fn(X))
    assert {task.device for task in tasks} == {0} and "aten" not in {task.kind for task in tasks}


def test_npu_runs_eagerly_and_says_so_where_there_is_no_torchair(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchair", None)
    (text,) = said("npu")
    assert text.startswith("backend 'npu' runs graphs operator by operator, because torchair cannot compile them (")
    assert npugraph.artifacts() == []


def test_npugraphs_captures_and_replays_the_operators_as_they_are():
    assert said("npugraphs") == []
    assert torch.equal(torch.compile(fn, backend="npugraphs", fullgraph=True)(X), fn(X))
    (artifact,) = npugraph.artifacts()
    assert (artifact.counters["captures"], artifact.counters["replays"]) == (1, 3)
    assert {task.kind for task in artifact.tasks} <= {"aten", "kernel"}


@pytest.mark.parametrize("backend", ["npu", "npugraphs"])
def test_arguments_are_not_ignored_in_silence(backend):
    texts = said(backend, options={"clone_input": False})
    assert any(
        f"backend {backend!r}" in text and "options={'clone_input': False} has no effect" in text for text in texts
    )


def test_the_mark_of_a_step_gives_nothing_up():
    compiled = torch.compile(fn, backend="npugraphs")
    results = []
    for _ in range(3):
        torch.compiler.npugraph_mark_step_begin()
        results.append(compiled(X))
    assert all(torch.equal(result, fn(X)) for result in results)
    assert len({result.data_ptr() for result in results}) == 3


def test_gradients_through_npugraphs_are_those_of_eager():
    with torch.enable_grad():
        x, own = (X.clone().requires_grad_() for _ in range(2))
        torch.compile(fn, backend="npugraphs")(x)[:, 0].sum().backward()
        fn(own)[:, 0].sum().backward()
    torch.testing.assert_close(x.grad, own.grad)
