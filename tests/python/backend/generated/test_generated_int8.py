# SPDX-License-Identifier: Apache-2.0
"""Products with weights of 8 bits as generated code, against eager, ATen's task and fp64."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex

GENERATE = {"generate_code": True}


def kinds() -> list[str]:
    return [task.kind for task in npugraph.artifacts()[-1].tasks]


@pytest.mark.parametrize("rows", [1, 5, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_of_8_bits(rows: int, dtype: torch.dtype) -> None:
    def product(x, weights, scales):
        return torch._weight_int8pack_mm(x, weights, scales)

    def fn(x, weights, scales, bias):
        return product(x, weights, scales), torch.relu(product(x * 2, weights, scales) + bias)

    torch.manual_seed(0)
    x, bias = torch.randn(rows, 192).to(dtype), torch.randn(96).to(dtype)
    weights, scales = torch.randint(-128, 128, (96, 192), dtype=torch.int8), (torch.rand(96) / 100).to(dtype)
    with torch.no_grad():
        eager = fn(x, weights, scales, bias)
        got = compile_ex(fn, options=GENERATE)(x, weights, scales, bias)
    first = x.double() @ (weights.double() * scales.double()[:, None]).T
    exact = (first, torch.relu(first * 2 + bias.double()))
    for mine, theirs, right in zip(got, eager, exact, strict=True):
        assert mine.dtype == dtype
        assert mine.stride() == theirs.stride()
        error, eagers = ((y.double() - right).abs().max() / right.abs().max() for y in (mine, theirs))
        assert error <= max(1e-5, 2 * eagers)  # the rule of docs/numerics.md, with a smaller factor
    assert kinds().count("matmul") == 2


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_that_convert_their_weights(rows: int, dtype: torch.dtype) -> None:
    """Integers become floats in registers, and the sums are multiplied by the scales."""

    def fn(x, weights, scales):
        return torch.nn.functional.linear(x, weights.to(x.dtype)) * scales, x @ weights.t().to(x.dtype)

    torch.manual_seed(0)
    x, scales = torch.randn(rows, 192).to(dtype), torch.rand(96).to(dtype)
    weights = torch.randint(-128, 128, (96, 192), dtype=torch.int8)
    with torch.no_grad():
        eager, got = fn(x, weights, scales), compile_ex(fn, options=GENERATE)(x, weights, scales)
    product = x.double() @ weights.double().T
    for mine, theirs, right in zip(got, eager, (product * scales.double(), product), strict=True):
        error, of_eager = ((t.double() - right).abs().max().item() for t in (mine, theirs))
        assert error <= max(1e-5 * right.abs().max().item(), 2 * of_eager)
    assert kinds() == ["matmul"]


def int_mm(x, weights):
    return torch._int_mm(x, weights.t())


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("k", [64, 1001])
def test_products_of_integers_are_exact(rows: int, k: int) -> None:
    torch.manual_seed(0)
    x, weights = (torch.randint(-128, 128, (n, k), dtype=torch.int8) for n in (rows, 72))
    with torch.no_grad():
        got = compile_ex(int_mm, options=GENERATE)(x, weights)
    assert got.dtype == torch.int32
    assert torch.equal(got, x.int() @ weights.int().t())
    assert kinds() == ["matmul"]


def dynamically_quantised(x, weights, scales, bias):
    """Quantises activations to 8 bits with a scale for each row, multiplies integers, and applies both scales."""
    of_rows = (x.float().abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-5)
    codes = torch.clamp(torch.round(x.float() / of_rows), -128, 127).to(torch.int8)
    return (torch._int_mm(codes, weights.t()) * of_rows * scales).to(x.dtype) + bias


def arguments(rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    weights = torch.randint(-128, 128, (96, 192), dtype=torch.int8)
    return torch.randn(rows, 192).to(dtype), weights, torch.rand(96) / 100, torch.randn(96).to(dtype)


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dynamically_quantised_linear_layers(rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given = arguments(rows, dtype)
    with torch.no_grad():
        aten = compile_ex(dynamically_quantised, options={"generate_code": False})(*given)
        torch._dynamo.reset()
        got = compile_ex(dynamically_quantised, options=GENERATE)(*given)
    # Both multiply the same integers, so only the rounding of the operators behind the product differs.
    torch.testing.assert_close(got, aten, rtol=1e-6 if dtype == torch.float32 else 1e-2, atol=1e-6)
    assert kinds() == ["loop", "matmul"]


def test_any_number_of_rows_in_one_program() -> None:
    torch.manual_seed(0)
    compiled = compile_ex(dynamically_quantised, options=GENERATE)
    for rows in (7, 2, 64):
        given = arguments(rows, torch.float32)
        torch._dynamo.mark_dynamic(given[0], 0)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*given), dynamically_quantised(*given), rtol=1e-6, atol=1e-6)
    assert len(npugraph.artifacts()) == 1


def test_integers_along_columns_stay_with_torch() -> None:
    def fn(x, weights):
        return torch._int_mm(x, weights)

    x, weights = torch.randint(-128, 128, (32, 64), dtype=torch.int8), torch.randint(-128, 128, (64, 32)).to(torch.int8)
    with torch.no_grad():
        got = compile_ex(fn, options=GENERATE)(x, weights)
    assert torch.equal(got, x.int() @ weights.int())
    assert kinds() == ["aten"]
