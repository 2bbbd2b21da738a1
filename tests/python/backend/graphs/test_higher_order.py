# SPDX-License-Identifier: Apache-2.0
"""Control flow becomes tasks that run Programs of their own. Ordered effects run in Python, and everything around them
is captured."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._python_dispatch import TorchDispatchMode

import npugraph
from tests.python.backend.checks import Make, assert_same, check_captured, check_partitioned, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def check_flow(fn: Callable[..., Any], *calls: Make, task: str, **arguments: Any) -> list[npugraph.Artifact]:
    """Does `check_captured`, and checks that control flow became the nested task `task` and that no task is Python."""
    artifacts = check_captured(fn, *calls, **arguments)
    tasks = [t for artifact in artifacts for t in artifact.tasks]
    kinds = {t.kind for t in tasks if t.name.endswith(task)}
    assert kinds == {"nested"}
    assert not any(t.kind == "python" for t in tasks)
    return artifacts


def test_cond_takes_the_branch_of_each_call() -> None:
    def fn(x):
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos() * 2, (x,)) + 1

    artifacts = check_flow(fn, lambda: (torch.ones(3),), lambda: (-torch.ones(3),), task="cond")
    (outer,) = (artifact for artifact in artifacts if artifact.nested)
    assert {*outer.nested, outer} == set(artifacts)
    assert [artifact.counters["replays"] for artifact in outer.nested] == [2, 2]
    assert outer.counters["replays"] == 4 and outer.counters["captures"] == 1


def test_cond_of_a_number() -> None:
    def fn(x, y):
        return torch.cond(x.shape[0] > 4, lambda a, b: a @ b, lambda a, b: a.sum() * b, (x, y))

    square = [lambda n=n: (torch.randn(n, n), torch.randn(n, n)) for n in (3, 4, 5, 6, 3)]
    check_captured(fn, *square, exact=False, dynamic=True)


def test_cond_takes_several_values_from_around_it() -> None:
    weight = torch.randn(4, 4)
    bias = torch.randn(4)

    def fn(p, x, y, scale):
        def if_true(a, b):
            return (a @ weight + bias).relu(), b.clone(), a.sum(0)

        def if_false(a, b):
            return (a * scale).contiguous(), (a - b).contiguous(), b.t().contiguous().t().mean(0)

        first, second, third = torch.cond(p, if_true, if_false, (x.t().contiguous().t(), y))
        return first + second, third * 2, first

    calls = [
        lambda p=p, n=n: (torch.tensor(p), torch.randn(n, 4), torch.randn(n, 4), torch.tensor(0.5))
        for n in (3, 5, 3)
        for p in (True, False)
    ]
    check_flow(fn, *calls, task="cond", exact=False, dynamic=True)


def test_cond_inside_of_cond() -> None:
    def fn(x, y):
        def inner(t):
            return torch.cond(t.sum() > 0, lambda u: u * 2 + y, lambda u: u - y, (t,))

        return torch.cond(x.sum() > 1, inner, lambda t: t.sin(), (x,))

    calls = [lambda v=v: (torch.full((3,), v), torch.randn(3)) for v in (-1.0, 0.1, 1.0)]
    check_flow(fn, *calls, task="cond")


def test_results_of_branches_may_have_sizes_that_only_the_run_knows() -> None:
    def fn(x, m):
        y = torch.cond(m.any(), lambda t, m: t[m].sin(), lambda t, m: t[:2].clone(), (x, m))
        return y * 2, y.shape[0]

    masks = (torch.tensor([True, False, True, True]), torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool))
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check_flow(fn, *[lambda m=m: (torch.randn(4), m.clone()) for m in masks], task="cond")


def test_an_error_in_a_branch_is_that_of_the_operator() -> None:
    def fn(p, x, i):
        return torch.cond(p, lambda t, i: t.index_select(0, i), lambda t, i: t[:2] * 1, (x, i)) + 1

    compiled = compile_ex(fn)
    x = torch.randn(4)
    good, bad = torch.tensor([0, 3]), torch.tensor([0, 9])
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        assert_same(compiled(torch.tensor(True), x, good), fn(torch.tensor(True), x, good))
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        compiled(torch.tensor(True), x, bad)
    for p in (False, True):
        assert_same(compiled(torch.tensor(p), x, good), fn(torch.tensor(p), x, good))


def test_an_error_in_generated_code_of_a_branch_names_its_task() -> None:
    def fn(p, x, i):
        return torch.cond(p, lambda t, i: t[i] * 2, lambda t, i: t[:2] * 2, (x, i))

    compiled = compile_ex(fn)
    x = torch.randn(4)
    compiled(torch.tensor(True), x, torch.tensor([0, 3]))
    with pytest.raises(IndexError, match=r"(?s)^index 9 .*\nin .*test_higher_order.py"):
        compiled(torch.tensor(True), x, torch.tensor([0, 9]))


def test_operators_in_python_are_called_in_branches_as_outside_of_them() -> None:
    """Dispatch modes that such an operator enters see the operators that it calls."""
    seen: list[str] = []

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    @torch.library.custom_op("higher_order_tests::noted_sine", mutates_args=())
    def noted_sine(x: torch.Tensor) -> torch.Tensor:
        with Noted():
            return x.sin()

    noted_sine.register_fake(lambda x: torch.empty_like(x))

    def fn(p, x):
        return torch.cond(p, lambda x: noted_sine(x) + 1, lambda x: x * 2, (x,))

    compiled, x = compile_ex(fn), torch.randn(4)
    for p in (True, False, True):
        seen.clear()
        assert_same(compiled(torch.tensor(p), x), x.sin() + 1 if p else x * 2)
        assert seen == ["aten.sin.default"] * p


def test_branches_draw_random_numbers_in_order() -> None:
    def fn(p, x):
        before = torch.rand(3)
        middle = torch.cond(p, lambda t: t + torch.rand(3), lambda t: t * 2, (x,))
        return before, middle, torch.rand(3)

    check_captured(fn, *[lambda p=p: (torch.tensor(p), torch.randn(3)) for p in (True, False, True)])


@pytest.mark.parametrize("dynamic", [False, True])
def test_cond_in_training(dynamic: bool) -> None:
    linear = torch.nn.Linear(4, 4)

    def fn(x):
        return torch.cond(x.sum() > 0, lambda t: linear(t).relu(), lambda t: (t * linear.bias).sin(), (x,)).sum()

    compiled = compile_ex(fn, dynamic=dynamic)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        for n, sign in ((3, 1), (3, -1), (5, 1), (5, -1)):
            x = (torch.rand(n, 4) * sign).requires_grad_()
            wanted = [x, linear.weight, linear.bias]
            got = torch.autograd.grad(compiled(x), wanted, allow_unused=True, materialize_grads=True)
            want = torch.autograd.grad(fn(x), wanted, allow_unused=True, materialize_grads=True)
            torch.testing.assert_close(got, want)


def test_while_loop() -> None:
    def fn(x, n):
        return torch.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x))[1] + 1

    calls = [lambda n=n: (torch.ones(3), torch.tensor(n)) for n in (0, 3, 1, 7)]
    artifacts = check_flow(fn, *calls, task="while_loop")
    (outer,) = (artifact for artifact in artifacts if artifact.nested)
    condition, body = outer.nested
    assert condition.counters["replays"] == 2 * (1 + 4 + 2 + 8) and body.counters["replays"] == 2 * 11
    assert condition.counters["captures"] == body.counters["captures"] == 1


def test_while_loop_over_numbers_and_transposed_values() -> None:
    weight = torch.randn(3, 4)

    def fn(x):
        def body(i, t):
            return i + 2, (t @ weight.t() @ weight + i).tanh().t().contiguous().t()

        i, y = while_loop(lambda i, t: i < t.shape[0], body, (0, x.t()))
        return y * 2, i + 1

    check_captured(fn, *[lambda n=n: (torch.randn(4, n),) for n in (3, 6, 4)], exact=False, dynamic=True)


def test_the_newton_iteration() -> None:
    def fn(a):
        def goes_on(x, change):
            return change.abs().max() > 1e-6

        def step(x, change):
            new = (x + a / x) / 2
            return new, new - x

        return torch.while_loop(goes_on, step, (torch.ones_like(a), torch.ones_like(a)))[0]

    check_flow(fn, *[lambda v=v: (torch.rand(5) * v + 0.1,) for v in (1, 100, 10000)], task="while_loop", exact=False)


def test_a_loop_whose_body_branches() -> None:
    def fn(x, n):
        def body(i, t):
            return i + 1, torch.cond(i % 2 == 0, lambda t: t * 2, lambda t: t + 1, (t,))

        return torch.while_loop(lambda i, t: i < n, body, (torch.tensor(0), x))

    check_flow(fn, *[lambda n=n: (torch.ones(3), torch.tensor(n)) for n in (0, 1, 5)], task="while_loop")


def test_map_and_scan() -> None:
    weight = torch.randn(3, 3)

    def mapped(x):
        return map_over(lambda t: t.sin() @ weight, x) + 1

    def scanned(x):
        last, all_of = scan(lambda c, t: (c + t, c * t), torch.zeros(3), x)
        return last * 2, all_of + 1

    for fn, task in ((mapped, "map_impl"), (scanned, "scan")):
        calls = [lambda n=n: (torch.randn(n, 3),) for n in (4, 2, 7)]
        check_flow(fn, *calls, lambda: (torch.randn(3, 4).t(),), task=task, dynamic=True, exact=False)
        torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [False, True])
def test_scan_in_training(dynamic: bool) -> None:
    def fn(x, w):
        return scan(lambda c, t: (torch.tanh(c @ w + t), c * t), torch.zeros(3), x)[1].square().sum()

    compiled = compile_ex(fn, dynamic=dynamic)
    with torch.enable_grad():
        for n in (4, 4, 6):
            given = [torch.randn(n, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)]
            got, want = (torch.autograd.grad(run(*given), given) for run in (compiled, fn))
            torch.testing.assert_close(got, want)


def test_control_flow_can_be_read_back() -> None:
    def fn(x, n):
        y = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))
        return torch.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t * 2), (torch.tensor(0), y))[1]

    x, n = torch.ones(3), torch.tensor(3)
    artifacts = check_captured(fn, lambda: (x.clone(), n.clone()))
    (outer,) = (artifact for artifact in artifacts if artifact.nested)
    module = outer.to_fx()
    names = [
        node.target.name() for node in module.graph.nodes if isinstance(node.target, torch._ops.HigherOrderOperator)
    ]
    assert names == ["cond", "while_loop"]
    with pytest.raises(ValueError, match="cond"):
        outer.save("unused.npg")


def test_what_torch_decomposes_is_captured() -> None:
    def prefix(x):
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic") + 1

    check_captured(prefix, lambda: (torch.randn(4, 3),))
    torch._dynamo.reset()
    sums = torch.vmap(lambda t: t.sin().sum())
    check_captured(lambda x: sums(x), lambda: (torch.randn(3, 4),), exact=False)
    torch._dynamo.reset()
    square = torch.func.grad(lambda t: (t.sin() ** 2).sum())
    check_captured(lambda x: square(x), lambda: (torch.randn(3, 4),), exact=False)


def test_print_happens_at_every_call_and_in_order(capsys) -> None:
    def fn(x):
        torch.ops.higher_order.print("first {n}", n=3)
        y = x + 1
        torch.ops.higher_order.print("second")
        return y

    compiled = compile_ex(fn)
    with pytest.warns(UserWarning, match="print"):
        compiled(torch.ones(3))
    assert torch.equal(compiled(torch.zeros(3)), torch.ones(3))
    assert capsys.readouterr().out == "first 3\nsecond\n" * 2


SEEN: list[float] = []


@torch.library.custom_op("backend_tests::record", mutates_args=())
def record(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(x.sum().item())
    return x.clone()


record.register_fake(lambda x: torch.empty_like(x))


def test_effects_run_even_when_nobody_uses_their_result() -> None:
    _register_effectful_op(torch.ops.backend_tests.record.default, _EffectType.ORDERED)

    def fn(x):
        kept = record(x * 2)
        record(x)
        return kept + 1

    try:
        check_partitioned(fn, lambda: (torch.ones(3),), names=["backend_tests.record"] * 2, task="mul", rounds=1)
        assert SEEN == [6.0, 3.0] * 2
    finally:
        _register_effectful_op(torch.ops.backend_tests.record.default, None)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("begin", [None, 2])
def test_branches_that_name_places_of_storages(first: int, begin: int | None) -> None:
    def fn(p, x):
        return torch.cond(p, lambda x: x.as_strided((2,), (1,), 3) + 1, lambda x: x[:2] * 2, (x[begin:],))

    compiled = compile_ex(fn)
    base = torch.randn(16)
    for k in (first, 0, 1, 2):
        for p in (True, False):
            x = base[k : k + 8]
            with torch.no_grad():
                torch.testing.assert_close(compiled(torch.tensor(p), x), fn(torch.tensor(p), x), rtol=0, atol=0)
