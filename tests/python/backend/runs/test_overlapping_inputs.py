# SPDX-License-Identifier: Apache-2.0
"""Inputs that share memory in ways that differ from call to call."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from tests.python.backend.checks import assert_same, check, compile_ex


@pytest.fixture(autouse=True, params=[False, True], ids=["no_grad", "grad"])
def grad_mode(request):
    with torch.set_grad_enabled(request.param):
        yield


def apart():
    return torch.randn(7), torch.randn(7)


def shifted():
    base = torch.randn(8)
    return base[:7], base[1:]


def shifted_back():
    base = torch.randn(8)
    return base[1:], base[:7]


def twice():
    x = torch.randn(7)
    return x, x


def two_views():
    x = torch.randn(7)
    return x, x.view(7)


def interleaved():
    base = torch.randn(14)
    return base[::2], base[1::2]


ALL = (shifted, shifted_back, twice, two_views, interleaved, apart)


def write_both(x, y):
    x.mul_(2)
    y.add_(1)
    return x + y, x * y


def write_one(x, y):
    y.add_(1)
    return x + y


def write_parts(x, y):
    x[:3] = 1
    y[3:] = 2
    return x - y


@pytest.mark.each_value
@pytest.mark.parametrize("fn", [write_both, write_one, write_parts])
@pytest.mark.parametrize("first", [apart, shifted, twice])
def test_written_inputs(fn, first) -> None:
    check(fn, first, *ALL, rounds=1, aliases=True)


@pytest.mark.parametrize("fn", [write_both, write_parts])
def test_written_inputs_of_changing_size(fn) -> None:
    def longer():
        return torch.randn(9), torch.randn(9)

    def longer_shifted():
        base = torch.randn(10)
        return base[:8], base[2:]

    check(fn, apart, shifted, longer, longer_shifted, twice, dynamic=True)


def test_inputs_that_are_only_read() -> None:
    check(lambda x, y: (x + y, x * 2), apart, *ALL)


def test_expanded_inputs() -> None:
    def repeated():
        return torch.randn(1, 4).expand(3, 4), torch.randn(3, 4)

    def base_and_repeated():
        base = torch.randn(4)
        return base.expand(3, 4), base.expand(3, 4)

    check(
        lambda x, y: (x + y, x.sin(), y.t() * 2),
        lambda: (torch.randn(3, 4), torch.randn(3, 4)),
        repeated,
        base_and_repeated,
    )


def test_a_written_input_behind_an_expanded_one() -> None:
    def fn(x, y):
        y.add_(1)
        return x + 1

    def over_the_same_memory():
        base = torch.randn(4)
        return base.expand(3, 4), base

    check(fn, lambda: (torch.randn(3, 4), torch.randn(4)), over_the_same_memory)


def test_calls_that_overlap_are_counted_and_compile_nothing() -> None:
    compiled = compile_ex(write_both)
    compiled(*apart())
    compiled(*shifted())
    compiled(*apart())
    found = counters["npugraph_ex"]
    assert (found["compiles"], found["replays"], found["overlapping_inputs"]) == (1, 2, 1)


def test_gradients_when_inputs_overlap() -> None:
    def fn(w, x, y):
        x.mul_(2)
        y.add_(1)
        return (w * x * y).sum()

    compiled = compile_ex(fn)
    with torch.enable_grad():
        for make in (apart, shifted, twice):
            gradients = []
            for run in (fn, compiled):
                torch.manual_seed(0)
                w = torch.randn(7, requires_grad=True)
                run(w, *make()).backward()
                gradients.append(w.grad)
            assert torch.equal(*gradients)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_number_that_views_another_input_and_is_written(dtype: torch.dtype) -> None:
    def fn(x, first):
        first.sub_(0.5)
        return x * 1

    compiled = compile_ex(fn, dynamic=False)
    for _ in range(2):
        own, given = (torch.arange(4, dtype=dtype) for _ in range(2))
        got, want = compiled(own, own[0]), fn(given, given[0])
        assert_same((got, own), (want, given))
