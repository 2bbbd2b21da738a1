# SPDX-License-Identifier: Apache-2.0
"""Graphs that are recorded without AOTAutograd equal AOTAutograd's. Some programs are left to AOTAutograd."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import npugraph
from npugraph.driver import routes
from npugraph.fx.dynamo.record import NotRecorded
from tests.python.backend.checks import assert_same, compile_ex

Make = Callable[[], tuple[Any, ...]]


def route() -> str:
    return npugraph.artifacts()[-1].phases[0][0]


def canonical(text: str) -> str:
    """Returns the text with values numbered in the order of definition, and without names and lines of the user's
    program."""
    numbers = itertools.count()
    names: dict[str, str] = {}
    text = re.sub(r'( @)? "[^"]*"', "", text)
    text = re.sub(r"@\w+", "@graph", text, count=1)
    return re.sub(r"%[\w.]+", lambda name: names.setdefault(name[0], f"%{next(numbers)}"), text)


def run_both(
    monkeypatch: pytest.MonkeyPatch, fn: Callable[..., Any], make: Make, **arguments: Any
) -> tuple[list[str], list[Any]]:
    """Compiles and calls ``fn`` by way of the recorder, then by way of AOTAutograd. Returns the canonical graphs,
    and the inputs and results of the two calls."""

    def refuse(gm: object) -> None:
        raise NotRecorded("a test")

    graphs, seen = [], []
    for wanted in ("record", "aot_autograd"):
        torch._dynamo.reset()
        with monkeypatch.context() as patched:
            if wanted == "aot_autograd":
                patched.setattr(routes, "record", refuse)
            inputs = make()
            seen.append((inputs, compile_ex(fn, **arguments)(*inputs)))
        assert route() == wanted
        graphs.append(canonical(npugraph.artifacts()[-1].graph()))
    return graphs, seen


def check_equal(monkeypatch: pytest.MonkeyPatch, fn: Callable[..., Any], make: Make, **arguments: Any) -> None:
    """Checks that both routes give the same graph, and the same results and inputs as eager."""
    graphs, seen = run_both(monkeypatch, fn, make, **arguments)
    assert graphs[0] == graphs[1]
    inputs = make()
    eager = (inputs, fn(*inputs))
    for both in seen:
        assert_same(both, eager, exact=False)


def normal(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


def writes_whole(x):
    x.mul_(2).add_(1)
    return x + 1


def writes_a_row(x):
    x[1] = 5
    return x * 2


def writes_columns(x, y):
    x[:, 1:3] = y
    first = y[:, 0]
    x[:, 0].add_(first)
    return x.sum()


def writes_through_turned_views(x):
    x.t()[0].mul_(3)
    x.view(3, 2, 2).permute(2, 0, 1)[1].sub_(1)
    x.unsqueeze(0).transpose(0, 1).neg_()
    return x.relu()


def reads_an_older_view(x):
    part = x[1:]
    whole = x.view(-1)
    x.add_(1)
    part.mul_(2)
    return part + 1, whole * 2


def reads_older_parts(x):
    first, second = x.split(2, 1)
    x.mul_(2)
    return first + 1, second.exp()


def writes_an_intermediate(x):
    y = x * 2
    y[0].zero_()
    z = y[1:].view(-1)
    y.clamp_(min=0.1)
    return z.exp(), y


def writes_on_the_diagonal(x):
    x.diagonal().fill_(1)
    return x.cos()


def puts_at_indices(x, index, y):
    x.index_copy_(0, index, y)
    x[index] = y * 2
    x.masked_fill_(x > 1, 0)
    return x + 1


def writes_through_a_reshape(x):
    y = (x + 1).t().reshape(-1)
    y.add_(1)
    return y * 2


def spells_out_tensors(x):
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor(3) * 2


def writes_a_spelled_out_tensor(x):
    y = torch.tensor([1.0, 2.0, 3.0, 4.0])
    y[1] = 7
    return x * y


def detaches(x):
    y = x.detach() * 2
    return y.data + 1, x.chunk(2, 1)[1] * y[:, 2:]


CASES: list[tuple[Callable[..., Any], Make]] = [
    (writes_whole, lambda: (normal(3, 4),)),
    (writes_a_row, lambda: (normal(3, 4),)),
    (writes_columns, lambda: (normal(3, 4), normal(3, 2))),
    (writes_through_turned_views, lambda: (normal(3, 4),)),
    (reads_an_older_view, lambda: (normal(3, 4),)),
    (reads_older_parts, lambda: (normal(3, 4),)),
    (writes_an_intermediate, lambda: (normal(3, 4),)),
    (writes_on_the_diagonal, lambda: (normal(4, 4),)),
    (puts_at_indices, lambda: (normal(5, 4), torch.tensor([3, 1]), normal(2, 4))),
    (writes_through_a_reshape, lambda: (normal(3, 4),)),
    (spells_out_tensors, lambda: (normal(3, 4),)),
    (writes_a_spelled_out_tensor, lambda: (normal(3, 4),)),
    (detaches, lambda: (normal(3, 4),)),
]


@pytest.mark.each_value
@pytest.mark.parametrize(("fn", "make"), CASES, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_both_routes_give_one_graph(monkeypatch, fn: Callable[..., Any], make: Make, dynamic: bool, mode: Any) -> None:
    with mode():
        check_equal(monkeypatch, fn, make, dynamic=dynamic)


def test_numbers_and_sizes(monkeypatch) -> None:
    def fn(x, n):
        return x.view(x.shape[0] * 2, -1).sum(1) / x.shape[1] + n, x.new_zeros(x.shape[0] // 2 + n)

    with torch.no_grad():
        check_equal(monkeypatch, fn, lambda: (normal(6, 4), 3), dynamic=True)


FLOATS: list[Callable[..., Any]] = [
    lambda x, f: x * f + (f - 1),
    lambda x, f: x.abs().pow(f).clamp(f / 4, f * 4),
    lambda x, f: (torch.full_like(x, f) - x, f * 2),
    lambda x, f: torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + f) * x,
    lambda x, f: torch.where(x > f, x, f).to(torch.bfloat16) * f,
    lambda x, f: x.new_ones(int(f * 2)) + x.sum(),
    lambda x, f: x.mul_(f).sub(1, alpha=f),
    lambda x, f: x.int() * f,
]


@pytest.mark.parametrize("fn", FLOATS)
def test_floats_of_the_caller_are_read_at_each_call(fn: Callable[..., Any]) -> None:
    compiled = compile_ex(fn, dynamic=True)
    with torch.no_grad():
        for f in (0.75, 1.75, 1.75, 2.25):
            inputs = normal(3, 4)
            want = fn(normal(3, 4), f)
            assert_same(compiled(inputs, f), want, exact=False)
            assert route() == "record"


def test_floats_of_a_module_need_no_second_program() -> None:
    class Norm(torch.nn.Module):
        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    norm = Norm()
    norm.eps = 1e-2
    compiled = compile_ex(norm, dynamic=True)
    with torch.no_grad():
        for eps in (1e-2, 1.0, 10.0):
            norm.eps = eps
            assert_same(compiled(normal(3, 8)), norm(normal(3, 8)), exact=False)
    assert route() == "record"
    assert len(npugraph.artifacts()) == 1


def test_gradients_that_nobody_needs(monkeypatch) -> None:
    check_equal(monkeypatch, writes_whole, lambda: (normal(3, 4),))


def test_modules_under_autocast(monkeypatch) -> None:
    layer = torch.nn.Linear(4, 8)

    def fn(x):
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x).relu()

    with torch.no_grad():
        check_equal(monkeypatch, fn, lambda: (normal(3, 4),))
        with torch.autocast("cpu", torch.bfloat16):
            check_equal(monkeypatch, layer.forward, lambda: (normal(3, 4),))


def test_writes_are_counted() -> None:
    x = normal(3, 4)
    with torch.no_grad():
        compile_ex(writes_whole)(x)
    assert route() == "record"
    assert x._version > 0


@pytest.mark.parametrize(
    ("fn", "make"),
    [
        (lambda x: x.view(-1), lambda: (normal(3, 4),)),
        (lambda x, y: x.add_(1) + y, lambda: (base := normal(6), (base[:3], base[3:]))[1]),
        (lambda x: (x * 2).t_().add(1), lambda: (normal(3, 4),)),
        (lambda x: x.nonzero().sum(), lambda: (normal(4),)),
        (lambda x: x.clone().normal_(), lambda: (normal(4),)),
        (lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), lambda: (normal(4),)),
        (lambda x: x.conj().mul(2), lambda: (normal(4).to(torch.complex64).conj(),)),
    ],
    ids=["output is input", "shared memory", "turned in place", "data dependent", "random", "cond", "conj"],
)
def test_what_is_left_to_aot_autograd(fn: Callable[..., Any], make: Make) -> None:
    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.manual_seed(0)
        got = compile_ex(fn)(*make())
        artifacts = npugraph.artifacts()
        nested = [inner for artifact in artifacts for inner in artifact.nested]
        assert {artifact.phases[0][0] for artifact in artifacts if artifact not in nested} == {"aot_autograd"}
        torch.manual_seed(0)
        assert_same(got, fn(*make()))


def test_gradients_go_through_aot_autograd() -> None:
    x = normal(3, 4).requires_grad_()
    compile_ex(torch.sin)(x).sum().backward()
    assert route() == "aot_autograd"
    assert_same(x.grad, x.cos(), exact=False)


def test_errors_of_the_program_are_eagers() -> None:
    def fn(x, y):
        return x.add_(y)

    with torch.no_grad(), pytest.raises(Exception, match="shape"):
        compile_ex(fn)(normal(3), normal(2, 3))
    with torch.no_grad():
        assert_same(compile_ex(torch.sin)(normal(3)), normal(3).sin(), exact=False)


def test_written_inputs_that_overlap_later_run_as_written() -> None:
    def fn(x, y):
        x.add_(1)
        return y * 2

    base = normal(8)
    with torch.no_grad():
        compiled = compile_ex(fn)
        compiled(normal(4), normal(4))
        assert route() == "record"
        assert_same(compiled(base[:4], base[2:6]), (normal(8)[2:6] + torch.tensor([1.0, 1, 0, 0])) * 2)


def test_the_graph_is_logged_as_aot_autograds_are() -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    torch._logging.set_logs(aot_graphs=True)
    logger = logging.getLogger("torch._functorch._aot_autograd.graph_capture.__aot_graphs")
    logger.addHandler(handler)
    try:
        with torch.no_grad():
            compile_ex(torch.sin)(normal(3))
    finally:
        logger.removeHandler(handler)
        torch._logging.set_logs()
    assert any("aten.sin" in record.getMessage() for record in records)
