# SPDX-License-Identifier: Apache-2.0
"""Generated pools, padding and reversal give the same results as eager, also at borders."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import npugraph
from tests.python.backend.checks import compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


POOLS = [
    lambda x: F.max_pool2d(x, 3, 2, 1),
    lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 0), dilation=(2, 1)),
    lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    lambda x: F.avg_pool2d(x, 2),
    lambda x: F.avg_pool2d(x, 3, 1, 1),
    lambda x: F.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False),
    lambda x: F.adaptive_avg_pool2d(x, (4, 6)),
    lambda x: F.adaptive_avg_pool2d(x, 1),
]


def kinds() -> set[str]:
    return {task.kind for artifact in npugraph.artifacts() for task in artifact.tasks}


def check(fn, x) -> None:
    def after(x):
        return fn(x) + 1

    got, eager = compile_ex(after)(x), after(x)
    assert (got.dtype, got.shape, got.stride()) == (eager.dtype, eager.shape, eager.stride())
    torch.testing.assert_close(got, eager, equal_nan=True)
    assert kinds() == {"loop"}


@pytest.mark.parametrize("pool", POOLS)
def test_pools_are_generated_and_equal_eager(pool) -> None:
    check(pool, torch.randn(2, 5, 20, 24))


@pytest.mark.parametrize("pool", POOLS[:6])
def test_pools_of_other_types_and_strides(pool) -> None:
    x = torch.randn(2, 5, 20, 24)
    check(pool, x.bfloat16())
    check(pool, x.double())
    check(pool, x[:, :, ::2, 3:])
    check(pool, x.to(memory_format=torch.channels_last))


@pytest.mark.parametrize("pool", POOLS[:6])
def test_special_values(pool) -> None:
    x = torch.randn(1, 2, 9, 10)
    x[0, 0, 4, 4], x[0, 1], x[0, 0, 0, 0] = float("nan"), -float("inf"), float("inf")
    check(pool, x)


@pytest.mark.parametrize("pool", POOLS[:6])
def test_symbolic_sizes(pool) -> None:
    compiled = compile_ex(lambda x: pool(x) + 1, dynamic=True)
    for size in [(2, 3, 9, 10), (1, 4, 20, 7), (3, 2, 5, 31)]:
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), pool(x) + 1)
    assert kinds() == {"loop"}


@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_indices_of_largest_elements(window) -> None:
    def fn(x):
        values, indices = F.max_pool2d(x, *window, return_indices=True)
        return values + 1, indices

    x = torch.randint(0, 4, (2, 3, 9, 10)).float()
    x[0, 0, 4, 4], x[0, 1], x[0, 0, 0, 0] = float("nan"), -float("inf"), float("inf")
    for got, eager in zip(compile_ex(fn)(x), fn(x), strict=True):
        torch.testing.assert_close(got, eager, rtol=0, atol=0, equal_nan=True)
    assert kinds() == {"loop"}


@pytest.mark.parametrize("pad", [(1, 2), (0, 3, 2, 0), (-1, 2, 1, -2), (1, 1, 0, 0, 2, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_padding_is_generated_and_equals_eager(pad, dtype) -> None:
    x = torch.randint(0, 2, (3, 6, 70)).to(dtype)
    compiled = compile_ex(lambda x: ~(F.pad(x, pad, value=1) > 0))
    assert torch.equal(compiled(x), ~(F.pad(x, pad, value=1) > 0))
    assert kinds() == {"loop"}


def test_reversal_is_generated_and_equals_eager() -> None:
    x = torch.randn(3, 50, 130)
    for dims in ((2,), (0,), (0, 1, 2)):
        assert torch.equal(compile_ex(lambda x, dims=dims: x.flip(dims) * 2)(x), x.flip(dims) * 2)
    assert kinds() == {"loop"}


def test_windows_in_front_of_dimensions_of_size_1() -> None:
    check(lambda x: F.pad(x, (0, 0, 1, 1), value=100.0), torch.arange(6.0).view(6, 1))
    check(lambda x: F.pad(x, (-1, -1, 1, 1)), torch.randn(4, 3))
    check(lambda x: F.pad(x, (0, 0, 0, 0, 1, 1)), torch.randn(4, 1, 1))
    check(lambda x: F.max_pool2d(x, (2, 1), None, (1, 0)), torch.randn(1, 1, 6, 1))
    check(lambda x: F.max_pool2d(x, (4, 3), None, (2, 0), (1, 2)), torch.randn(2, 16, 5, 5))
    check(lambda x: F.avg_pool2d(x, (2, 3), None, (1, 0)), torch.randn(1, 1, 6, 3))
