# SPDX-License-Identifier: Apache-2.0
"""Functions and models through GE: converted to Ascend IR, and run by the engine from the bytes of the ModelDef."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import npugraph
import torchair
from npugraph.ge.backend import target
from npugraph.log import logger
from torchair import get_npu_backend


def compiled(fn: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend=get_npu_backend(), **how)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are made from now on, before they are compiled."""
    made = []

    class Noted(target.GeConcreteGraph):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(target, "GeConcreteGraph", Noted)
    return made


@pytest.fixture
def changed(graphs: list[Any]) -> Callable[..., Callable[..., Any]]:
    """Returns a function that compiles. It calls ``change`` with the graph of GE between the trace and the first
    call."""
    backend = get_npu_backend()

    def compile_changed(fn: Callable[..., Any], change: Callable[[Any], None]) -> Callable[..., Any]:
        def changing(gm: Any, inputs: Any) -> Any:
            run = backend(gm, inputs)
            change(graphs[-1].graph)
            return run

        torch._dynamo.reset()
        return torch.compile(fn, backend=changing)

    return compile_changed


def only(graph: Any, op_type: str) -> Any:
    (op,) = (op for op in graph.op if op.type == op_type)
    return op


@torch.no_grad()
def test_one_compile_serves_all_sizes(graphs: list[Any]) -> None:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    model = torch.nn.Sequential(*layers).eval()
    fast = compiled(model, dynamic=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(fast(x), model(x))
    assert len(graphs) == 1


@pytest.mark.feature("6.41", "12e.7")
@torch.no_grad()
def test_the_type_of_an_operator_is_what_runs(changed: Any) -> None:
    def subtract(graph: Any) -> None:
        only(graph, "Add").type = "Sub"

    x, y = torch.randn(2, 2), torch.randn(2, 2)
    fast = changed(lambda x, y: x + y, subtract)
    for _ in range(2):
        torch.testing.assert_close(fast(x, y), x - y)


@pytest.mark.feature("6.41")
@torch.no_grad()
def test_the_bytes_of_a_constant_are_what_runs(changed: Any) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([2.0, 3.0])

    def replace(graph: Any) -> None:
        tensor = only(graph, "Const").attr["value"].t
        assert tensor.data == np.array([2, 3], np.float32).tobytes()
        tensor.data = np.array([-1, 5], np.float32).tobytes()

    x = torch.randn(2, 2)
    torch.testing.assert_close(changed(scaled, replace)(x), x * torch.tensor([-1.0, 5.0]))


@pytest.mark.feature("6.41")
@torch.no_grad()
def test_an_unknown_operator_is_an_error_that_names_it_and_the_users_line(changed: Any) -> None:
    def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def misspell(graph: Any) -> None:
        only(graph, "Add").type = "Plus"

    line = total.__code__.co_firstlineno + 1
    place = rf"test_backend\.py:{line} in total\)"
    refusal = rf"operator 'Add' of type Plus \(.*{place}: Ascend IR has no operator of this type"
    with pytest.raises(ValueError, match=refusal):
        changed(total, misspell)(torch.ones(2), torch.ones(2))


@pytest.mark.feature("6.43")
@torch.no_grad()
def test_the_first_call_says_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    fast = compiled(lambda x, y: x + y)
    with caplog.at_level(logging.INFO, logger.name):
        fast(torch.ones(2), torch.ones(2))
        texts = [record.getMessage() for record in caplog.records]
        begin = next(text for text in texts if text.startswith("start compile graph: graph_"))
        name = begin.removeprefix("start compile graph: ").removesuffix(".")
        assert texts[-1] == f"end compile graph: {name} and start run graph."
        caplog.clear()
        fast(torch.ones(2), torch.ones(2))
        assert not caplog.records


@torch.no_grad()
def test_written_inputs_are_written() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    caches = [torch.zeros(4) for _ in range(2)]
    x = torch.arange(4.0)
    fast = compiled(step)
    for _ in range(2):
        torch.testing.assert_close(fast(caches[0], x), step(caches[1], x))
        torch.testing.assert_close(caches[0], caches[1])


@pytest.mark.parametrize("kind", ["tensor", "view of the input", "in parts"])
@pytest.mark.parametrize("grad", [False, True])
def test_a_written_input_that_overlaps_another_one(kind: str, grad: bool) -> None:
    """Such calls run as the function was written."""

    def step(cache: torch.Tensor, x: torch.Tensor) -> Any:
        cache.mul_(2)
        if kind == "in parts":
            return torch.sort(x)[0] + 1  # has no converter
        return x + 1 if kind == "tensor" else (x + 1, cache[1:])

    with torch.set_grad_enabled(grad):
        fast = compiled(step)
        fast(torch.zeros(4), torch.ones(4))
        ours, theirs = torch.arange(8.0), torch.arange(8.0)
        for _ in range(2):
            torch.testing.assert_close(fast(ours[:4], ours[2:6]), step(theirs[:4], theirs[2:6]))
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(fast(ours[:4], ours[4:]), step(theirs[:4], theirs[4:]))


@pytest.mark.feature("6.31")
@torch.no_grad()
def test_a_converter_of_the_user_is_used(graphs: list[Any]) -> None:
    @torch.library.custom_op("npugraph_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    @torchair.register_fx_node_ge_converter(torch.ops.npugraph_tests.twice.default)
    def convert_twice(x: Any, *, meta_outputs: Any = None) -> Any:
        return torchair.ge.custom_op("Add", x, x)

    x = torch.randn(3)
    torch.testing.assert_close(compiled(lambda x: twice(x))(x), x * 2)
    assert [op.type for op in graphs[0].graph.op] == ["Data", "Add", "NetOutput"]


@torch.no_grad()
def test_graphs_are_artifacts_of_their_model() -> None:
    npugraph.reset()
    model = torch.nn.Linear(4, 4)
    fast = compiled(model)
    fast(torch.ones(2, 4))
    (artifact,) = npugraph.artifacts()
    assert artifact.name.startswith("graph_")
    assert [task.kind for task in artifact.tasks] and artifact.memory["arena_bytes"] >= 0
    del model, fast
    gc.collect()
    assert npugraph.artifacts() == []
