# SPDX-License-Identifier: Apache-2.0
"""Generated loop nests: as accurate as eager, with any size, stride and dtype, and fused."""

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


def layer_norm(x, y):
    return F.layer_norm(x * 2 + y, [x.shape[-1]])


def residual_norm(x, y):
    h = x + y
    n = x.shape[-1]
    return h, F.layer_norm(h, [n], torch.ones(n, dtype=x.dtype), torch.zeros(n, dtype=x.dtype))


def rms_norm(x, y):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * y


def softmax(x, y):
    return torch.softmax(x * 0.5 + y, -1), torch.log_softmax(x - y, -1)


def gates(x, y):
    return F.silu(x) * y, F.gelu(x) + F.gelu(y, approximate="tanh"), torch.sigmoid(x).mul(y).relu()


def masks(x, y):
    return torch.where(x > y, x, y * 0.5) + 1, (x > 0) & (y <= 0), torch.clamp(x, -0.5, 0.5) * y.abs()


FUNCTIONS = [layer_norm, residual_norm, rms_norm, softmax, gates, masks]


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    if exact.dtype == torch.bool:
        return float((got != exact).sum())
    return float((got.double() - exact.double()).abs().max() / exact.double().abs().max())


def check(fn, make, *sizes, dynamic) -> None:
    options = {"generate_code": True, "horizontal_fusion": False}  # tasks show one by one
    compiled = compile_ex(fn, options=options, dynamic=dynamic)
    for size in sizes:
        args = make(size)
        for got, eager, exact in zip(
            *(
                result if isinstance(result, tuple) else (result,)
                for result in (compiled(*args), fn(*args), fn(*(arg.double() for arg in args)))
            ),
            strict=True,
        ):
            assert (got.dtype, got.shape, got.stride()) == (eager.dtype, eager.shape, eager.stride())
            assert error(got, exact) <= max(1e-6, 2 * error(eager, exact))


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_generated_functions_are_as_accurate_as_eager(fn, dtype, dynamic) -> None:
    check(fn, lambda n: (torch.randn(n, 77, dtype=dtype), torch.randn(n, 77, dtype=dtype)), 5, 40, dynamic=dynamic)
    assert any(task.kind == "loop" for artifact in npugraph.artifacts() for task in artifact.tasks)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_strides_and_broadcasts(fn) -> None:
    check(fn, lambda n: (torch.randn(n, 3, 40)[:, ::2, :33], torch.randn(33)), 4, 7, dynamic=True)
    check(fn, lambda n: (torch.randn(n, 2, 31), torch.randn(n, 1, 31)), 3, dynamic=False)


def test_one_task_and_no_copy() -> None:
    compiled = compile_ex(rms_norm, options={"generate_code": True})
    x, w = torch.randn(6, 64), torch.randn(64)
    compiled(x, w)
    (artifact,) = npugraph.artifacts()
    assert [task.kind for task in artifact.tasks] == ["loop"]
    assert artifact.memory["arena_bytes"] == 0


def test_special_values() -> None:
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3e38, 1.0]).repeat(3)

    def fn(x):
        return (-x).exp(), (x * 2).relu(), (x + 1).clamp(-1, 1), x.abs().sqrt(), (x - x).isnan()

    for got, eager in zip(compile_ex(fn, options={"generate_code": True})(special), fn(special), strict=True):
        torch.testing.assert_close(got, eager, equal_nan=True)


@pytest.mark.parametrize("size", [(0, 5), (3, 0), (1, 1)])
def test_empty_and_single(size) -> None:
    for fn in (gates, softmax, layer_norm):
        x, y = torch.randn(size), torch.randn(size)
        got, eager = compile_ex(fn, options={"generate_code": True})(x, y), fn(x, y)
        torch.testing.assert_close(got, eager)


def test_the_same_bits_with_one_and_two_threads() -> None:
    x, y = torch.randn(300, 700), torch.randn(300, 700)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(compile_ex(layer_norm, options={"generate_code": True})(x, y))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)


def test_gradients_of_gelu_are_0_where_the_density_is_no_normal_number():
    """Processors compute with denormal numbers a hundred times slower, and ATen has 0 there, too."""
    x = torch.linspace(-20, 20, 4096)
    gradient = compile_ex(torch.ops.aten.gelu_backward, options={"generate_code": True})(torch.ones_like(x), x)
    assert (gradient[x < -13.16] == 0).all()
    assert not ((gradient != 0) & (gradient.abs() < torch.finfo(torch.float32).tiny)).any()
    torch.testing.assert_close(gradient, torch.ops.aten.gelu_backward(torch.ones_like(x), x), rtol=1e-5, atol=1e-6)
