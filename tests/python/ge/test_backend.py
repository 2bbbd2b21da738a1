# SPDX-License-Identifier: Apache-2.0
"""Functions and models through GE: converted to Ascend IR, and run by the engine from the bytes of the ModelDef."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from npugraph.ge.backend import target
from npugraph.ge.backend.engine import initialize_graph_engine
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.log import logger


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


@torch.no_grad()
def test_the_graph_is_what_runs(graphs: list[Any]) -> None:
    """An operator that is changed between tracing and the first call changes the result."""
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    made = []
    backend = get_npu_backend()

    def keep(gm: Any, inputs: Any) -> Any:
        run = backend(gm, inputs)
        (add,) = [op for op in graphs[-1].graph.op if op.type == "Add"]
        add.type = "Sub"
        made.append(graphs[-1])
        return run

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(lambda x, y: x + y, backend=keep)(x, y), x - y)
    assert made[0].is_compiled


@torch.no_grad()
def test_the_first_call_says_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    fast = compiled(lambda x, y: x + y)
    with caplog.at_level(logging.INFO, logger.name):
        fast(torch.ones(2), torch.ones(2))
        texts = [record.getMessage() for record in caplog.records]
        begun = next(i for i, text in enumerate(texts) if text.startswith("start compile graph: graph_"))
        assert texts[begun + 1].startswith("end compile graph: graph_")
        assert texts[begun + 1].endswith(" and start run graph.")
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


def test_options_of_the_process_do_not_change() -> None:
    from npugraph.ge.backend import engine

    given = dict(engine._options or {"ge.deterministic": "0"})
    initialize_graph_engine(given)
    initialize_graph_engine(given)
    with pytest.raises(ValueError, match=r"hold for the process and cannot change: ge\.deterministic='7' \(was "):
        initialize_graph_engine(given | {"ge.deterministic": "7"})
