# SPDX-License-Identifier: Apache-2.0
"""Operators and Python callables as tasks of a compiled graph: the result of eager, call after call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from npugraph import reset
from npugraph.backend import npugraph_ex


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reset()
    with torch.no_grad():
        yield
    reset()


def compile_(fn: Callable[..., Any], dynamic: bool | None = False) -> Callable[..., Any]:
    """Compiles `fn` so that every operator becomes a task of its own."""
    options = {"generate_code": False}
    return torch.compile(fn, backend=npugraph_ex, fullgraph=True, dynamic=dynamic, options=options)


def check(fn: Callable[..., Any], *calls: tuple[Any, ...], dynamic: bool | None = False) -> None:
    compiled = compile_(fn, dynamic)
    for args in calls:
        for run in range(2):
            torch.manual_seed(run)
            expected = fn(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
            torch.manual_seed(run)
            got = compiled(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
            torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_random_operators_equal_eager_under_a_seed() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.rand_like(x)
        b = torch.randn(3, 4)
        c = torch.nn.functional.dropout(x, 0.5, True)
        return a, b, c, torch.randperm(10), torch.bernoulli(a), torch.randint(0, 5, (3,)), torch.empty(3).uniform_(2, 3)

    check(fn, (torch.ones(4, 4),))


def test_lists_of_tensors_as_results() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch._foreach_add([x, y], 2.0)
        values, indices = torch.topk(x, 2)
        return a * 2, b, values, indices

    check(fn, (torch.randn(5), torch.randn(3)))


def test_sizes_that_depend_on_data() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        index = x.nonzero()
        values = x[x > 0]
        return index, values * 2, torch.ones(index.size(0)) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(fn, (torch.tensor([[1.0, 0.0], [2.0, -1.0]]),), (torch.zeros(2, 2),), (torch.ones(2, 2),))


def test_scalars_that_depend_on_data() -> None:
    def fn(x: torch.Tensor, n: torch.Tensor, f: torch.Tensor, b: torch.Tensor) -> tuple[Any, ...]:
        size = n.item()
        torch._check(size >= 0)
        torch._check(size < 100)
        return x * f.item(), torch.full((size,), 2.0), size + 1

    def call(n: int, f: float) -> tuple[Any, ...]:
        return torch.ones(3), torch.tensor(n), torch.tensor(f), torch.tensor(True)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(fn, call(3, 0.5), call(0, 1.5), call(7, -2.0))


def test_dynamic_shapes() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, w)
        return torch.logaddexp(y, y), y.view(-1), torch.cumsum(y, 0), y.new_full((x.shape[0] * 2,), 3.0)

    w = torch.randn(8, 4)
    check(fn, *[(torch.randn(n, 8), w) for n in (2, 5, 3, 5)], dynamic=True)


@torch.library.custom_op("bridge_tests::scale_into", mutates_args=("out",))
def scale_into(x: torch.Tensor, out: torch.Tensor, factor: float) -> None:
    out.copy_(x * factor)


@torch.library.custom_op("bridge_tests::split_stats", mutates_args=())
def split_stats(x: torch.Tensor, parts: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x.sum(), [part.clone() for part in x.chunk(parts)]


@split_stats.register_fake
def _(x: torch.Tensor, parts: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x.new_empty(()), [torch.empty_like(part) for part in x.chunk(parts)]


def test_custom_operators_in_python() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = torch.empty_like(x)
        scale_into(x, out, 3.0)
        total, parts = split_stats(out, 2)
        return out + 1, total, parts[0] * 2, parts[1]

    check(fn, (torch.randn(6),))


def test_custom_operator_that_writes_an_input() -> None:
    def fn(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        scale_into(x, out, 2.0)
        return out + x

    compiled = compile_(fn)
    x, out = torch.randn(4), torch.zeros(4)
    torch.testing.assert_close(compiled(x, out), 3 * x)
    torch.testing.assert_close(out, 2 * x)


def test_higher_order_operators_run_in_python() -> None:
    def fn(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda v: v.sin(), lambda v: v.cos() * 2, (x,)) + 1

    x = torch.randn(4)
    with pytest.warns(Warning, match="runs in Python"):
        check(fn, (x, torch.tensor(1.0)), (x, torch.tensor(0.0)))


def test_inference_mode_and_grad_mode_see_the_same() -> None:
    compiled = compile_(lambda x: torch.logaddexp(x, x) * 2)
    x = torch.randn(4)
    expected = torch.logaddexp(x, x) * 2
    torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
