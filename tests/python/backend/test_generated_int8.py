# SPDX-License-Identifier: Apache-2.0
"""Products with weights of 8 bits and a scale for each row, as generated code, against eager and fp64."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex

GENERATE = {"generate_code": True}


def kinds() -> list[str]:
    return [task.kind for task in npugraph.artifacts()[-1].tasks]


@pytest.mark.parametrize("rows", [1, 5, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
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
        error = (mine.double() - right).abs().max().item()
        assert error <= max(1e-5, 2 * (theirs.double() - right).abs().max().item())
    assert kinds().count("matmul") == 2


def test_other_weights_stay_with_torch() -> None:
    """Integers that are multiplied exactly."""

    def fn(x, weights):
        return torch._int_mm(x, weights)

    x, weights = torch.randint(-128, 128, (32, 64), dtype=torch.int8), torch.randint(-128, 128, (64, 32)).to(torch.int8)
    with torch.no_grad():
        got = compile_ex(fn, options=GENERATE)(x, weights)
    assert torch.equal(got, x.int() @ weights.int())
