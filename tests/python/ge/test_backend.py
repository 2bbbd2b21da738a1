# SPDX-License-Identifier: Apache-2.0
"""Functions and models through GE: converted to Ascend IR, and run by the engine from the bytes of the ModelDef."""

from __future__ import annotations

import gc
import logging
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import npugraph
import torchair
from npugraph.counters import ProcessCounts
from npugraph.ge.backend import target
from npugraph.ge.converters import registry
from npugraph.log import EVENT, logger
from torchair import get_npu_backend


def compiled(fn: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend=get_npu_backend(), **how)


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


@pytest.mark.feature("6.44")
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
def test_a_warning_names_an_unknown_operator_and_the_users_line(changed: Any, caplog: pytest.LogCaptureFixture) -> None:
    def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def misspell(graph: Any) -> None:
        only(graph, "Add").type = "Plus"

    line = total.__code__.co_firstlineno + 1
    place = rf"test_backend\.py:{line} in total\)"
    refusal = rf"operator 'Add' of type Plus \(.*{place}: Ascend IR has no operator of this type"
    torch.testing.assert_close(changed(total, misspell)(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert re.search(refusal, warning), warning


@pytest.mark.feature("6.43")
@torch.no_grad()
def test_the_first_call_says_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    fast = compiled(lambda x, y: x + y)
    with caplog.at_level(logging.INFO, logger.name):
        fast(torch.ones(2), torch.ones(2))
        texts = [record.getMessage() for record in caplog.records]
        begin = next(text for text in texts if text.startswith("start compile graph: graph_"))
        name = begin.removeprefix("start compile graph: ").removesuffix(".")
        assert texts[-2] == f"end compile graph: {name} and start run graph."
        caplog.clear()
        fast(torch.ones(2), torch.ones(2))
        (record,) = caplog.records
        assert record.levelno == EVENT and record.getMessage().startswith("torchair run at ")


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


OVERLAPS = {  # where the written input and two others lie, and whether the first overlaps one of them
    "apart": ((0, 4), (4, 4), (8, 4), False),
    "behind the others, which overlap": ((8, 4), (0, 4), (2, 4), False),
    "before the others, which overlap": ((0, 4), (4, 4), (4, 4), False),
    "at the begin of another": ((0, 2), (0, 8), (8, 4), True),
    "within another": ((2, 2), (0, 8), (8, 4), True),
    "at the end of another": ((7, 4), (0, 4), (4, 4), True),
    "between others": ((4, 4), (0, 4), (8, 4), False),
    "around another": ((0, 12), (20, 2), (4, 4), True),
}


@pytest.mark.parametrize("case", OVERLAPS)
@torch.no_grad()
def test_which_inputs_overlap_a_written_one(case: str) -> None:
    *places, do_overlap = OVERLAPS[case]

    def step(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        x.mul_(2)
        return torch.sort(y)[0] + 1, z * 3

    fast = compiled(step, dynamic=True)
    fast(torch.zeros(5), torch.ones(6), torch.ones(7))
    ours, theirs = (torch.arange(24.0) for _ in range(2))
    counts = ProcessCounts()
    found = fast(*(ours[begin : begin + size] for begin, size in places))
    expected = step(*(theirs[begin : begin + size] for begin, size in places))
    torch.testing.assert_close((*found, ours), (*expected, theirs))
    assert counts["overlapping_inputs"] == do_overlap


@pytest.mark.usefixtures("order_is_missing")
def test_a_backward_graph_whose_written_input_overlaps_another_one() -> None:
    """The program does not have that graph, so it cannot run as it was written."""

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, count: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(count, order)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            count, order = ctx.saved_tensors
            with torch.no_grad():
                count.add_(1)
            return gradient * 2 + torch.sort(order)[0], None, None

    fast = compiled(lambda x, count, order: Counted.apply(x, count, order))
    x = torch.ones(4, requires_grad=True)
    fast(x, torch.zeros(4), torch.ones(4)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0] * 4
    memory = torch.arange(8.0)
    loss = fast(x, memory[:4], memory[2:6]).sum()
    with pytest.raises(RuntimeError, match=r"the backward graph '.*' writes an input that overlaps another one"):
        loss.backward()
    assert torch.equal(memory, torch.arange(8.0))


@torch.no_grad()
def test_graphs_of_torch_are_needed_no_more_when_they_are_converted(converted: list[weakref.ref[Any]]) -> None:
    fast = compiled(lambda x: (x * 2, x.t()))
    fast(torch.ones(2, 3))
    gc.collect()
    assert [graph() for graph in converted] == [None]


def test_inputs_that_are_no_outputs_are_freed_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    lives: list[tuple[int, int]] = []  # how many inputs a graph gets, and how many of them something else keeps

    class Watched(target.GeConcreteGraph):
        def __call__(self, given: list[Any]) -> Any:
            inputs = [weakref.ref(value) for value in given if isinstance(value, torch.Tensor)]
            results = super().__call__(given)
            lives.append((len(inputs), sum(tensor() is not None for tensor in inputs)))
            return results

    monkeypatch.setattr(target, "GeConcreteGraph", Watched)
    fast = compiled(lambda x: torch.exp(torch.sin(x).mean(0)) * x.shape[0], dynamic=True)
    x = torch.ones(3, 4, requires_grad=True)
    fast(x).sum().backward()
    assert lives == [(1, 1), (3, 1)]  # the program has x


@torch.no_grad()
def test_a_graph_whose_converter_has_an_error_runs_by_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """They compute what the program says: the autocast of the caller does not reach them."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("this converter has an error")

    monkeypatch.setitem(registry._converters, "aten.mm.default", refuse)

    def product(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return torch.mm(x, x)

    x = torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.warns(UserWarning, match="has an error"):
        found = compiled(product)(x)
    assert torch.equal(found, x @ x)


def with_outputs(x: Any, *, meta_outputs: Any = None) -> Any:
    assert meta_outputs.dtype == torchair.ge.DataType.DT_FLOAT
    return torchair.ge.custom_op("Add", x, x)


def without_outputs(x: Any) -> Any:
    return torchair.ge.custom_op("Add", x, x)


@pytest.mark.feature("6.31")
@pytest.mark.parametrize("convert", [with_outputs, without_outputs])
@torch.no_grad()
def test_a_converter_of_the_user_is_used(graphs: list[Any], convert: Any) -> None:
    """Most public converters have no parameter ``meta_outputs``."""
    name = f"twice_{convert.__name__}"

    @torch.library.custom_op(f"npugraph_tests::{name}", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    torchair.register_fx_node_ge_converter(getattr(torch.ops.npugraph_tests, name).default)(convert)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(lambda x: twice(x))(x), x * 2)
    assert [op.type for op in graphs[0].graph.op] == ["Data", "Add", "NetOutput"]


@torch.no_grad()
@pytest.mark.usefixtures("order_is_missing")
def test_graphs_that_eager_operators_cut_are_artifacts_of_their_model() -> None:
    """Their memory is freed when the model is gone, although the function is kept."""
    kept = []
    backend = get_npu_backend()

    def keeping(gm: Any, inputs: Any) -> Any:
        kept.append(backend(gm, inputs))
        return kept[-1]

    npugraph.reset()
    model = torch.nn.Linear(4, 4)
    torch.compile(lambda model, x: torch.sort(model(x))[0] @ model.weight, backend=keeping)(model, torch.ones(2, 4))
    assert len(npugraph.artifacts()) == 2
    del model
    gc.collect()
    assert npugraph.artifacts() == []


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


@torch.no_grad()
def test_a_copied_input_is_copied_before_it_is_written() -> None:
    def step(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        doubled = z * 2
        y.copy_(z)
        z.add_(2)
        return doubled

    fast = compiled(step)
    ours, eager = ([torch.ones(4), torch.zeros(4)] for _ in range(2))
    assert torch.equal(fast(*ours), step(*eager))
    assert torch.equal(ours[0], eager[0]) and torch.equal(ours[1], eager[1])
