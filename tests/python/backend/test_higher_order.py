# SPDX-License-Identifier: Apache-2.0
"""Higher-order operators and ordered effects: they run in Python, everything around them is captured."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan

from tests.python.backend.checks import check_captured, check_partitioned, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def test_cond_takes_the_branch_of_each_call() -> None:
    def fn(x):
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1

    check_partitioned(fn, lambda: (torch.ones(3),), lambda: (-torch.ones(3),), names=["cond"], task="add")


def test_while_loop() -> None:
    def fn(x, n):
        return torch.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x))[1] + 1

    calls = [lambda n=n: (torch.ones(3), torch.tensor(n)) for n in (0, 3)]
    check_partitioned(fn, *calls, names=["while_loop"], task="add")


def test_map_and_scan() -> None:
    def mapped(x):
        return map_over(lambda t: t.sin(), x) + 1

    def scanned(x):
        return scan(lambda c, t: (c + t, c * t), torch.zeros(3), x)[1] + 1

    check_partitioned(mapped, lambda: (torch.randn(4, 3),), names=["map_impl"], task="add")
    torch._dynamo.reset()
    check_partitioned(scanned, lambda: (torch.randn(4, 3),), names=["scan"], task="add")


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
