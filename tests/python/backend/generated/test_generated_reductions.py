# SPDX-License-Identifier: Apache-2.0
"""Generated reductions and scans over any dimensions are as accurate as eager, also of strided and empty tensors."""

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


def numbers(x, dims, keepdim):
    options = {"dim": dims, "keepdim": keepdim}
    x = x * 2 + 1
    norms = [torch.linalg.vector_norm(x, order, **options) for order in (2, 1, float("inf"), 0)]
    return (
        x.sum(**options),
        x.mean(**options),
        x.amax(**options),
        x.amin(**options),
        *torch.var_mean(x, **options, correction=1),
        x.std(**options, correction=0),
        torch.logsumexp(x, **options),
        *norms,
    )


def kinds() -> list[str]:
    return [task.kind for artifact in npugraph.artifacts() for task in artifact.tasks]


def error(got, exact):
    return float((got.double() - exact.double()).abs().max() / exact.double().abs().max().clamp(min=1e-30))


def check(fn, *inputs, generated=True) -> None:
    compiled = compile_ex(fn, options={"horizontal_fusion": False})  # tasks show one by one
    for args in inputs:
        results = [compiled(*args), fn(*args), fn(*(arg.double() for arg in args))]
        for got, eager, exact in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
            assert (got.dtype, got.shape, got.stride()) == (eager.dtype, eager.shape, eager.stride())
            assert error(got, exact) <= max(1e-6, 2 * error(eager, exact))
    assert not generated or "loop" in kinds()


@pytest.mark.each_value
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_any_dimensions(dims, keepdim) -> None:
    check(lambda x: numbers(x, dims, keepdim), [torch.randn(7, 9, 33)], [torch.randn(40, 71, 130)])
    assert set(kinds()) == {"loop"}


@pytest.mark.parametrize("dims", [(0,), (1,), (1, 2), (0, 1, 2)])
def test_symbolic_sizes(dims) -> None:
    fn = compile_ex(lambda x: numbers(x, dims, False), dynamic=True)
    for size in [(5, 6, 7), (300, 3, 2), (2, 200, 90), (70, 80, 90)]:
        x = torch.randn(size)
        for got, exact in zip(fn(x), numbers(x.double(), dims, False), strict=True):
            assert error(got, exact) <= 2e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_reductions_of_other_types_are_as_accurate_as_eager(dtype) -> None:
    check(lambda x: numbers(x, (1,), True), [torch.randn(3, 80, 40, dtype=dtype)])
    check(lambda x: (x * 2).sum((0, 1)), [torch.randn(80, 40, 70, dtype=dtype)])
    check(lambda x: (x * 2).sum((0, 1), dtype=torch.float64), [torch.randn(80, 40, 70, dtype=dtype)])


def test_reductions_of_strided_tensors_are_as_accurate_as_eager() -> None:
    images = torch.randn(2, 33, 14, 15)
    last = images.to(memory_format=torch.channels_last)
    for x in (last, images[:, ::2], images.transpose(0, 2), images[:1].expand(2, 33, 14, 15)):
        check(lambda x: ((x * 2).mean((2, 3)), (x * 3).sum(1, keepdim=True), (x * 4).amax((0, 3))), [x])


@pytest.mark.parametrize("size", [(0, 4, 5), (3, 0, 5), (1, 1, 1), (4, 1, 1)])
def test_nothing_and_single_elements(size) -> None:
    x = torch.randn(size)

    def fn(x):
        y = x * 2
        return y.sum(1), y.mean((0, 2)), y.prod(1), (y > 0).any(0), (y > 0).all(), y.sum(), y.std(0), y.cumsum(1)

    for got, eager in zip(compile_ex(fn)(x), fn(x), strict=True):
        torch.testing.assert_close(got, eager, equal_nan=True)


def test_special_values() -> None:
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3e38, 1.0])
    x = special[torch.randint(0, 8, (40, 30, 40), generator=torch.Generator().manual_seed(1))]
    x[:, 3], x[5] = -float("inf"), 2.0

    def fn(x):
        y = -x
        found = [
            f(y, d) for d in (0, 1, 2) for f in (torch.amax, torch.amin, torch.argmax, torch.argmin, torch.logsumexp)
        ]
        return *found, y.max(), y.min(), y.argmax(), y.argmin(), *y.max(1), y.sum((0, 1)), (y != y).any(1), y.all(0)

    for got, eager in zip(compile_ex(fn)(x), fn(x), strict=True):
        torch.testing.assert_close(got, eager, equal_nan=True)


def test_reductions_of_integers_and_booleans_equal_eager() -> None:
    x = torch.randint(-50, 50, (30, 41, 35))
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):

        def fn(x):
            y = ~x
            out = [y.sum(0), y.sum((1, 2)), y.sum(), y.prod(1), y.any(0), y.all(2), y.any()]
            if x.dtype != torch.bool:
                out += [y.amax(1), y.argmax(0), y.argmin(), *y.min(1), y.cumsum(1)]
            return tuple(out)

        for got, eager in zip(compile_ex(fn)(x.to(dtype)), fn(x.to(dtype)), strict=True):
            assert got.dtype == eager.dtype and torch.equal(got, eager)


def test_first_of_equal_extremes() -> None:
    x = torch.randint(0, 3, (50, 20, 60)).float()

    def fn(x):
        y = x + 1
        return *(f(y, d) for d in (0, 1, 2, None) for f in (torch.argmax, torch.argmin)), *y.max(0), *y.min(2, True)

    for got, eager in zip(compile_ex(fn)(x), fn(x), strict=True):
        assert torch.equal(got, eager)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scans_are_generated_along_any_dimension(dim) -> None:
    x = 1 + 0.1 * torch.randn(40, 33, 37)
    check(lambda x: ((x * 1.5).cumsum(dim), (x * 0.7).cumprod(dim)), [x], [x[:, :1]])
    assert set(kinds()) == {"loop"}


def test_norms_over_other_dimensions() -> None:
    def fn(x):
        y = x + 1
        scaled = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        return torch.softmax(y, 1), torch.log_softmax(y, 0), F.layer_norm(x, x.shape[2:]), scaled

    check(fn, [torch.randn(3, 20, 21, 22)])
    assert set(kinds()) == {"loop"}


def test_what_is_summed_is_in_no_memory() -> None:
    x, y = torch.randn(300, 300), torch.randn(300, 300)
    check(lambda x, y: (x - y).square().mean(), [x, y])
    (artifact,) = npugraph.artifacts()
    assert [task.kind for task in artifact.tasks] == ["loop"]
    assert artifact.memory["live_bytes"] == 0


def test_the_same_bits_with_one_and_two_threads() -> None:
    x = torch.randn(3000, 70)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(compile_ex(lambda x: ((x * 2).sum(), (x * 3).sum(0), (x * 3).sum(1)))(x))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
