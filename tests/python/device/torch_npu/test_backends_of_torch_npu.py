# SPDX-License-Identifier: Apache-2.0
"""The backends of torch.compile that come with torch_npu: ``npu`` and ``npugraphs``."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._dynamo.backends.registry import list_backends

import npugraph
import torchair

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
    """Returns the warnings of a compile, and checks that its results have the bits of eager mode."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = torch.compile(fn, backend=backend, fullgraph=True, **arguments)
        for _ in range(2):
            assert torch.equal(compiled(X), fn(X))
    return [str(w.message) for w in caught if issubclass(w.category, npugraph.NpugraphWarning)]


def test_they_are_found_by_name():
    assert {"npu", "npugraph_ex", "npugraphs"} <= set(list_backends())


def test_npu_runs_eagerly_and_says_so_where_torchair_does_not_compile():
    (text,) = said("npu")
    assert text.startswith("backend 'npu' runs graphs operator by operator, because torchair cannot compile them (")
    assert "backend='npugraph_ex'" in text
    assert npugraph.artifacts() == []


def test_real_use_of_the_missing_mode_is_an_error_that_names_it():
    with pytest.raises(RuntimeError, match=r"torchair.get_npu_backend is of GE mode, which is not here; torch.compile"):
        torchair.get_npu_backend()
    assert not hasattr(torchair, "dynamo_export")


def test_npugraphs_captures_and_replays_the_operators_as_they_are():
    assert said("npugraphs") == []
    (artifact,) = npugraph.artifacts()
    assert (artifact.counters["captures"], artifact.counters["replays"]) == (1, 2)
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


def test_gradients():
    with torch.enable_grad():
        x, own = (X.clone().requires_grad_() for _ in range(2))
        torch.compile(fn, backend="npugraphs")(x)[:, 0].sum().backward()
        fn(own)[:, 0].sum().backward()
    torch.testing.assert_close(x.grad, own.grad)
