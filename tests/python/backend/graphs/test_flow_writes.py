# SPDX-License-Identifier: Apache-2.0
"""Control flow writes what it captures as in eager mode, and is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from tests.python.backend.checks import assert_same, check_captured, compile_ex, compiled_artifacts
from tests.python.backend.graphs.flow_programs import PROGRAMS, SOME, turns


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def operands(size: int, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((size,), float(sign)), torch.arange(1.0, size + 1)


def check_compiled(fn: Callable[..., Any], *calls: Any, **arguments: Any) -> None:
    artifacts = check_captured(fn, *calls, **arguments)
    kinds = [task.kind for artifact in artifacts for task in artifact.tasks]
    assert "nested" in kinds and "python" not in kinds


@pytest.mark.parametrize("name", SOME)
def test_writes_of_control_flow(name: str) -> None:
    check_compiled(PROGRAMS[name], *(lambda sign=sign: operands(4, sign) for sign in (1, -1)))


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_writes_of_control_flow(name: str) -> None:
    check_compiled(PROGRAMS[name], *(lambda sign=sign: operands(4, sign) for sign in (1, -1)))
    torch._dynamo.reset()
    calls = [lambda size=size, sign=sign: operands(size, sign) for size in (4, 6, 8) for sign in (1, -1)]
    check_compiled(PROGRAMS[name], *calls, dynamic=True)


def test_writes_of_views_at_places_that_depend_on_sizes() -> None:
    def fn(x, s):
        v = s[s.shape[0] // 2 :]

        def one(t):
            s.mul_(2)
            return t + v.add_(1).sum()

        return torch.cond(x.sum() > 0, one, lambda t: t - v.sum(), (x,)), v + 1

    check_compiled(fn, *(lambda n=n, sign=sign: operands(n, sign) for n in (4, 6) for sign in (1, -1)), dynamic=True)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        def body(t):
            self.weight[1:].mul_(2)
            return t + self.weight * self.count.add_(1)

        return turns(body, x) * self.count


def test_writes_of_parameters_and_buffers() -> None:
    own, eager = Counter(), Counter()
    compiled = compile_ex(own)
    for _ in range(3):
        x = torch.randn(4)
        assert_same(compiled(x), eager(x))
        assert_same(dict(own.state_dict()), dict(eager.state_dict()))


def test_writes_without_gradients_in_training() -> None:
    def fn(x, s):
        with torch.no_grad():
            step = turns(lambda t: t + s.mul_(2), torch.ones(4))
        return (x * step * s).sum()

    compiled = compile_ex(fn)
    with torch.enable_grad():
        for _ in range(2):
            gradients, written = [], []
            for run in (compiled, fn):
                x, s = torch.arange(4.0, requires_grad=True), torch.arange(1.0, 5)
                gradients.append(torch.autograd.grad(run(x, s), x))
                written.append(s)
            assert_same(*gradients)
            assert_same(*written)
    assert not any(task.kind == "python" for artifact in compiled_artifacts() for task in artifact.tasks)


@pytest.mark.parametrize("kind", [pytest.param("loop", marks=pytest.mark.long), "scan"])
def test_gradients_of_captured_tensors_that_are_written_around_control_flow(kind: str) -> None:
    def fn(x, w, s):
        s.mul_(2)
        if kind == "loop":
            y = while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, (t * w + s).tanh()), (torch.tensor(0), x))[1]
        else:
            y = scan(lambda c, t: (c * w + t, c * s), x * 1, x.expand(3, 4) * 2)[1]
        s.add_(1)
        return (y * s).sum()

    compiled = compile_ex(fn)
    with torch.enable_grad():
        for _ in range(2):
            gradients, written = [], []
            for run in (compiled, fn):
                torch.manual_seed(0)
                x, w, s = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True), torch.randn(4)
                gradients.append(torch.autograd.grad(run(x, w, s), (x, w)))
                written.append(s)
            torch.testing.assert_close(*gradients)
            assert_same(*written)


def test_inputs_that_share_memory() -> None:
    def fn(x, p, q):
        def one(t):
            p.mul_(2)
            return t + q.sum()

        return torch.cond(x.sum() > 0, one, lambda t: t - q.sum(), (x,))

    pairs = {
        "apart": lambda c: (c[0], c[1]),
        "inside": lambda c: (c.view(-1), c.view(-1)[2:]),
        "in part": lambda c: (c.view(-1)[2:5], c.view(-1)[:4]),
        "transposed": lambda c: (c, c.t()),
    }
    for pair in pairs.values():
        torch._dynamo.reset()
        compiled = compile_ex(fn)
        for sign in (1, -1):
            x = torch.full((3,), float(sign))
            own, given = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)
            assert_same(compiled(x, *pair(own)), fn(x, *pair(given)))
            assert_same(own, given)


def test_reads_of_tensors_that_are_written_around_control_flow() -> None:
    """``scan``, ``map`` and ``associative_scan`` may not write what they capture."""

    def scanned(x, s):
        s.mul_(2)
        y = scan(lambda c, t: (c + t, c * s), x[0] * 0, x)[1]
        s.add_(1)
        return y + scan(lambda c, t: (c + t * s, c * 1), x[0] * 0, x)[0]

    def mapped(x, s):
        v = s[1:]
        v.mul_(2)
        y = map_over(lambda t: t * s, x)
        s.add_(1)
        return y + map_over(lambda t: t * v.sum(), x)

    def combined(x, s):
        s.mul_(2)
        y = associative_scan(lambda a, b: a * 2 + b * s, x, 0, combine_mode="generic")
        s.add_(1)
        return y * s

    for fn in (scanned, mapped, combined):
        torch._dynamo.reset()
        check_captured(fn, lambda: (torch.ones(4, 3), torch.arange(3.0)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("trains", [False, True])
def test_writes_of_a_region_that_is_compiled_once(trains: bool, dynamic: bool) -> None:
    count = torch.zeros(1)

    @torch.compiler.nested_compile_region
    def inner(t, s):
        s[1:].mul_(2)
        count.add_(1)
        return t.sin() + s

    @torch.compiler.nested_compile_region
    def region(t, s):
        s.add_(1)
        return inner(t * 2, s) + count

    def fn(x, s):
        return region(x, s) + region(x.cos(), s), s + 1

    def called(function):
        x, s = torch.arange(12.0).view(4, 3).requires_grad_(trains), torch.arange(3.0)
        count.zero_()
        results = function(x, s)
        gradient = torch.autograd.grad(results[0].sum(), x) if trains else ()
        return *results, *gradient, s, count.clone()

    with torch.set_grad_enabled(trains):
        compiled = called(compile_ex(fn, dynamic=dynamic))
        assert not any(artifact.python_tasks for artifact in compiled_artifacts())
        assert_same(compiled, called(fn), exact=False)
