# SPDX-License-Identifier: Apache-2.0
"""Operators that read a part of the result of a product, convolution or attention, forward and backward.

Such an operator looks like an epilogue of the product. But a product writes all of its rows, which would overrun the
smaller result of the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.python.backend.checks import assert_same, check, compile_ex

ROWS = (5, 6, 9, 17, 64, 33)


def factors(n: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(n + 7, 4), torch.randn(4, 4), torch.randn(n, 4)


PARTS: dict[str, Callable[..., torch.Tensor]] = {
    "head": lambda g, w, x: (g @ w)[: x.shape[0]] * x,
    "tail": lambda g, w, x: (g @ w)[7:] * x,
    "tail_from_end": lambda g, w, x: (g @ w)[-x.shape[0] :] * x,
    "narrow": lambda g, w, x: (g @ w).narrow(0, 0, x.shape[0]) * x,
    "narrow_inside": lambda g, w, x: (g @ w).narrow(0, 3, x.shape[0]) * x,
    "one_row": lambda g, w, x: (g @ w)[0] * x,
    "last_row": lambda g, w, x: (g @ w)[-1] * x,
    "every_other": lambda g, w, x: (g @ w)[::2].sin() + x[0],
    "head_of_view": lambda g, w, x: (g @ w).view(-1, 2, 2)[: x.shape[0]].tanh() * x.view(-1, 2, 2),
    "halves": lambda g, w, x: (g @ w)[: x.shape[0]].relu() + (g @ w)[7:].tanh() * x,
    "with_bias": lambda g, w, x: torch.addmm(w[0], g, w)[: x.shape[0]].sigmoid() * x,
    "elsewhere_too": lambda g, w, x: (g @ w)[: x.shape[0]] * x + g[: x.shape[0]],
    "rows_of_an_index": lambda g, w, x: (g @ w)[torch.arange(x.shape[0])] * x,
    "into_cat": lambda g, w, x: torch.cat([(g @ w)[: x.shape[0]] * x, x.sin()]),
    "of_cat": lambda g, w, x: (torch.cat([x.sin(), g]) @ w)[: x.shape[0]] * x,
    "columns": lambda g, w, x: (g @ w)[: x.shape[0], :2].exp() * x[:, :2],
    "bits": lambda g, w, x: ((g @ w).view(torch.int32)[: x.shape[0]] >> 31) & x.view(torch.int32),  # sign bits
    "other_rows_with_a_matrix": lambda g, w, x: torch.addmm(g, g, w).view(1, -1, 4)[:, : x.shape[0]].tanh() * x,
}


@pytest.mark.each_value
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dynamic", [True, False])
def test_part_of_a_product(part: str, dynamic: bool) -> None:
    sizes = ROWS if dynamic else ROWS[:2]
    calls = [lambda n=n: factors(n) for n in sizes]
    torch.manual_seed(0)
    check(PARTS[part], *calls, dynamic=dynamic, exact=False)


@pytest.mark.parametrize("sizes", [(2, -1, 4), (-1, 1, 4)])
def test_rows_of_a_matrix_that_a_product_adds(sizes: tuple[int, ...]) -> None:
    def fn(m: torch.Tensor, g: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.addmm(m, g, w).view(sizes).tanh()

    calls = [lambda n=n: (torch.randn(2 * n, 4), torch.randn(2 * n, 4), torch.randn(4, 4)) for n in (5, 6, 9)]
    check(fn, *calls, dynamic=True, exact=False)


def test_a_few_matrices_of_a_batched_product() -> None:
    def fn(g: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(g, w)[: x.shape[0]] * x

    def make(n: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(n + 2, 8, 4), torch.randn(n + 2, 4, 4), torch.randn(n, 8, 4))

    check(fn, *(make(n) for n in (3, 4, 7)), dynamic=True, exact=False)


@pytest.mark.parametrize("channels", [(4, 1), (16, 32)])
def test_a_part_of_a_convolution(channels: tuple[int, int]) -> None:
    conv = torch.nn.Conv2d(*channels, 3, padding=1)

    def images(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (conv(x)[: y.shape[0]] * y).relu()

    def rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (conv(x)[:, :, : y.shape[2]] * y).relu()

    with torch.no_grad():
        for n in (2, 3, 5):
            check(
                images,
                lambda n=n: (torch.randn(n + 2, channels[0], 9, 10), torch.randn(n, channels[1], 9, 10)),
                dynamic=True,
                exact=False,
            )
            check(
                rows,
                lambda n=n: (torch.randn(1, channels[0], n + 5, 10), torch.randn(1, channels[1], n, 10)),
                dynamic=True,
                exact=False,
            )


def test_a_part_of_attention() -> None:
    def fn(q: torch.Tensor, k: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, k)
        return (out[:, :, : x.shape[2]] * x).relu()

    def make(n: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(1, 1, n + 7, 16), torch.randn(1, 1, n, 16), torch.randn(1, 1, n, 16))

    check(fn, *(make(n) for n in (5, 6, 40)), dynamic=True, exact=False)


def test_a_part_of_a_quantised_product() -> None:
    """Each result is a float32 sum of 64 terms in some order, which bounds its error."""
    codes = torch.randint(-128, 127, (32, 64), dtype=torch.int8)
    scales = torch.rand(32)
    weights = (codes.double() * scales.double()[:, None]).T

    def fn(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int8pack_mm(g, codes, scales)[: x.shape[0]] * x

    def make(n: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(n + 7, 64), torch.randn(n, 32))

    compiled = compile_ex(fn, dynamic=True)
    for n in ROWS:
        g, x = make(n)()
        exact = (g.double() @ weights)[:n] * x.double()
        bound = 64 * torch.finfo(torch.float32).eps * (g.double().abs() @ weights.abs())[:n] * x.double().abs()
        for run in (fn, compiled):
            assert bool(((run(g, x).double() - exact).abs() <= bound).all())


BACKWARD: dict[str, Callable[..., torch.Tensor]] = {
    "cat_with_a_constant": lambda x, w: torch.cat([x.sin(), torch.ones(7, 4)]) @ w,
    "cat_in_front": lambda x, w: torch.cat([torch.ones(7, 4), x.sin()]) @ w,
    "cat_twice": lambda x, w: torch.cat([x.sin(), torch.ones(7, 4), x.cos()]) @ w,
    "narrow": lambda x, w: (torch.cat([x.sin(), torch.ones(7, 4)]) @ w).narrow(0, 3, x.shape[0]) * x,
    "pad": lambda x, w: torch.nn.functional.pad(x.sin(), (0, 0, 0, 7)) @ w,
}


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_of_parts(name: str) -> None:
    fn = BACKWARD[name]
    compiled = compile_ex(fn, dynamic=True)
    for n in ROWS:
        x, w = torch.randn(n, 4), torch.randn(4, 4)
        grads = []
        for run in (fn, compiled):
            leaves = [t.clone().requires_grad_() for t in (x, w)]
            run(*leaves).square().sum().backward()
            grads.append([leaf.grad for leaf in leaves])
        assert_same(grads[1], grads[0], exact=False)
