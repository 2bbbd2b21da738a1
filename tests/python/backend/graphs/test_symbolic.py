# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on sizes and on numbers that are arguments."""

from __future__ import annotations

import math

import pytest
import torch

from tests.python.backend.checks import check, check_captured, check_partitioned


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def matrix(*size):
    return lambda: (torch.randn(size),)


CALLS = (matrix(6, 8), matrix(9, 4), matrix(5, 7))

EXPRESSIONS = {
    "floor division and remainder": lambda x: x.new_zeros(x.shape[0] // 2 + 1) + x.shape[0] % 3,
    "negative": lambda x: x[-(x.shape[0] // 2) :].roll(-x.shape[1], 0) + (-x.shape[0] // 4) + (-x.shape[1] % 5),
    "max and min": lambda x: x.new_zeros(max(x.shape[0], 3)) + min(x.shape[1], 5),
    "round": lambda x: x.new_zeros(round(x.shape[0] * 1.5)) + 1,
    "truncate": lambda x: x.new_ones(int(x.shape[0] * 1.3), 2),
    "ceil and floor": lambda x: x.new_ones(math.ceil(x.shape[0] * 0.7), math.floor(x.shape[1] / 3) + 1),
    "square root": lambda x: x * math.sqrt(x.shape[0]) + (x.shape[0] / 2.5) ** 0.5,
    "float": lambda x: x * float(x.shape[0]) + x.shape[1] ** -0.5,
    "shifts and bits": lambda x: x + (x.shape[0] << 2) + (x.shape[0] >> 1) + (x.shape[0] & 3) + (x.shape[0] ^ 5),
    "power": lambda x: x.new_ones(x.shape[0] ** 2, 1),
    "windows": lambda x: x.reshape(x.shape[0] * x.shape[1]).unfold(0, 2, 1),
    "pooling": lambda x: torch.nn.functional.max_pool2d(x[None, None], 2, ceil_mode=True),
    "adaptive pooling": lambda x: torch.nn.functional.adaptive_avg_pool2d(x[None, None], 3),
    "results": lambda x: (x.shape[0] * 2, x.shape[1] / 3, x.shape[0] > 3, x + 1),
    "ranges": lambda x: torch.arange(x.shape[0])[:, None] + torch.arange(0, x.shape[1], 2),
    "triangles": lambda x: torch.tril(torch.ones(x.shape[0], x.shape[1])) * x,
    "chunks": lambda x: [chunk + 1 for chunk in x.chunk(2)],
}


@pytest.mark.parametrize("fn", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_expressions_of_sizes(fn) -> None:
    assert len(check_captured(fn, *CALLS, dynamic=True, rounds=1)) == 1


def test_interpolation_of_any_size_is_compiled_once() -> None:
    def fn(x):
        return torch.nn.functional.interpolate(x[None, None], scale_factor=1.5, mode="bilinear")

    assert len(check_captured(fn, *CALLS, dynamic=True, exact=False)) == 1


def test_an_expression_that_the_core_does_not_know() -> None:
    def fn(x):
        return x * round(x.shape[0] / 7, 2) + 1

    check_partitioned(fn, *CALLS, names=["round"], task="mul", dynamic=True)


def test_both_sides_of_a_condition_on_sizes() -> None:
    check_captured(lambda x: x * 2 if x.shape[0] > 5 else x * 3, *CALLS, dynamic=True)


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_numbers_as_arguments(dynamic) -> None:
    def calls(*numbers):
        return [lambda n=n: (torch.randn(3), n) for n in numbers]

    check(lambda x, s: x * s + s**2, *calls(1.5, 2.5, 0.25), dynamic=dynamic)
    check(lambda x, s: (x * s, s + 1, x.new_zeros(s)), *calls(3, 5, 2), dynamic=dynamic)
    check(lambda x, s: x * s, *calls(True, False), dynamic=dynamic)
    check(lambda x, s: (x + 1, s), *calls(None, "text"), dynamic=dynamic)


def test_an_expression_that_a_guard_holds_at_1() -> None:
    def fn(x):
        y = x + x
        return y.diagonal(1, 2, 0) + y

    check(
        fn,
        *[lambda n=n: (torch.randn(2, 4, n).transpose(0, 1).contiguous().transpose(0, 1),) for n in (5, 3, 8)],
        dynamic=True,
    )
