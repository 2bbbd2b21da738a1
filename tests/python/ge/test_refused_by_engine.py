# SPDX-License-Identifier: Apache-2.0
"""Operators that have a converter, and that the engine refuses when it compiles: they run eagerly, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from npugraph import _C
from npugraph.ge import proto
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import MissingConverters
from tests.python.ge.converted import random_tensor as t
from tests.python.ge.cut_runs import Run

_ENDS = ("Data", "RefData", "NetOutput", "Const")


class Engine:
    """An engine that refuses the operators of a type. ``types`` are those that it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = ""
        self.types: set[str] = set()
        self._compile = _C.ge.compile
        monkeypatch.setattr(_C.ge, "compile", self.compile)

    def compile(self, model: bytes, request: Any, device: torch.device, *options: Any) -> Any:
        operators = [op for graph in proto.ModelDef.FromString(model).graph for op in graph.op]
        self.types |= {op.type for op in operators}
        for op in operators:
            if op.type == self.refused:
                error = _C.OperatorRefused(f"this engine has no {op.type}")
                error.node = op.name
                raise error
        return self._compile(model, request, device, *options)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(monkeypatch)


def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    q, k, v = functional.layer_norm(x @ w, (24,)).view(2, x.shape[1], 3, 8).unbind(2)
    scores = torch.softmax(q @ k.transpose(1, 2) * 8**-0.5, -1).masked_fill(x[..., :1] > 9, 0)
    return functional.gelu((scores @ v).reshape(-1, 8)).sum(0) + torch.cat([x.mean((0, 1)), x[0, 0].abs().sqrt()])[::2]


def images(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = functional.max_pool2d(torch.relu(functional.conv2d(x, w, padding=1)), 2)
    best = functional.pad(y, (1, 0)).flatten(1).topk(3)[0]
    return best, torch.where(y > 0, torch.sigmoid(y), y.clamp(min=-1)).amax((2, 3))


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[1:] += torch.tanh(y[1:])
    x.index_copy_(0, torch.tensor([0]), y[:1] * 2)
    return x.cumsum(0) - y.argmax(-1, keepdim=True)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]], bool]] = {
    "block": (block, lambda: (t(2, 5, 8), t(8, 24)), False),
    "block of any size": (block, lambda: (t(2, 5, 8), t(8, 24)), True),
    "images": (images, lambda: (t(2, 3, 8, 8), t(4, 3, 3, 3)), False),
    "written": (written, lambda: (t(4, 6), t(4, 6)), False),
    "written of any size": (written, lambda: (t(4, 6), t(4, 6)), True),
}


def check(function: Callable[..., Any], fast: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    ours, theirs = ([x.clone() for x in inputs] for _ in range(2))
    expected = function(*theirs)
    for _ in range(2):
        torch.testing.assert_close((fast(*ours), ours), (expected, theirs))
        ours = [x.clone() for x in inputs]


@pytest.mark.parametrize("name", FUNCTIONS)
@torch.no_grad()
def test_each_operator_of_a_graph_can_be_refused(name: str, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    function, inputs, dynamic = FUNCTIONS[name]
    check(function, Run(function, caplog, dynamic=dynamic).fast, inputs())
    operators = sorted(engine.types - {*_ENDS})
    assert len(operators) > 5
    for engine.refused in operators:
        caplog.clear()
        run = Run(function, caplog, dynamic=dynamic)
        check(function, run.fast, inputs())
        assert f"the engine refuses it: this engine has no {engine.refused}" in run.warnings[-1]


def test_each_operator_of_a_training_step_can_be_refused(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    def step(function: Callable[..., Any], x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.detach().requires_grad_()
        loss = function(x, w)
        return loss.detach(), *torch.autograd.grad(loss, [x])

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(torch.tanh(x @ w), torch.arange(4))

    inputs = t(4, 6), t(6, 5)
    expected = step(loss, *inputs)
    torch.testing.assert_close(step(Run(loss, caplog).fast, *inputs), expected)
    operators = sorted(engine.types - {*_ENDS})
    assert {"Tanh", "TanhGrad", "LogSoftmaxV2"} <= set(operators)
    for engine.refused in operators:
        torch.testing.assert_close(step(Run(loss, caplog).fast, *inputs), expected)
        assert f"this engine has no {engine.refused}" in run_warnings(caplog)


def run_warnings(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


@torch.no_grad()
def test_a_refusal_is_an_error_on_request(engine: Engine) -> None:
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    engine.refused = "Tanh"
    fast = torch.compile(lambda x: torch.tanh(x + 1), backend=get_npu_backend(compiler_config=config))
    for _ in range(2):
        with pytest.raises(MissingConverters, match=r"aten\.tanh.*the engine refuses it.*test_refused_by_engine"):
            fast(t(3))
    engine.refused = ""
    x = t(3)
    torch.testing.assert_close(fast(x), torch.tanh(x + 1))


@torch.no_grad()
def test_the_engine_says_which_operator_it_refuses() -> None:
    model = proto.ModelDef()
    graph = model.graph.add(name="g")
    data = graph.op.add(name="x", type="Data")
    data.output_desc.add(name="y", dtype=1).shape.dim.append(4)
    graph.op.add(name="unknown", type="Qr", input=["x:0"]).output_desc.add(name="y")
    graph.op.add(name="end", type="NetOutput", input=["unknown:0"])
    from npugraph.options import parse
    from npugraph.request import compile_request

    with pytest.raises(_C.OperatorRefused, match="operator 'unknown' of type Qr") as caught:
        _C.ge.compile(model.SerializeToString(), compile_request(parse(None), "g"), torch.device("cpu"))
    assert caught.value.node == "unknown"
