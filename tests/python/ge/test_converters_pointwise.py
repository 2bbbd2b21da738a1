# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that compute each element from elements at the same place: operators, operands,
promotions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.python.ge.converted import check_values, converted, random_tensor

aten = torch.ops.aten
functional = torch.nn.functional
f32, f64, bf16, f16, i64, i32, u8, flags = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.uint8, torch.bool),
)


def of(*dtypes: torch.dtype) -> list[torch.Tensor]:
    """A small tensor of each type."""
    return [random_tensor(2, 3, dtype=dtype) for dtype in dtypes]


ARITHMETIC: list[tuple[Callable[..., Any], list[torch.dtype], str]] = [
    (lambda x, y: aten.add(x, y), [f32, f32], "Add(x, y)"),
    (lambda x: aten.add(x, 2), [f32], "Add(x, 2.0)"),
    (lambda x: aten.add(x, 2), [i32], "Add(x, 2:INT32)"),
    (lambda x: aten.add(x, 2.5), [i64], "Add(Cast(x, FLOAT), 2.5)"),
    (lambda x: aten.add(x, 0.1), [f64], "Add(x, 0.1:DOUBLE)"),
    (lambda x, y: aten.add(x, y), [i64, f32], "Add(Cast(x, FLOAT), y)"),
    (lambda x, y: aten.add(x, y, alpha=3), [f32, f32], "AxpyV2(x, y, 3.0)"),
    (lambda x, y: aten.sub(x, y), [f32, f32], "Sub(x, y)"),
    (lambda x, y: aten.sub(x, y, alpha=2), [f32, f32], "AxpyV2(x, y, -2.0)"),
    (lambda x: aten.rsub(x, 1), [f32], "Sub(1.0, x)"),
    (lambda x: aten.rsub(x, 1, 3), [f32], "AxpyV2(1.0, x, -3.0)"),
    (lambda x, y: aten.mul(x, y), [f32, bf16], "Mul(x, Cast(y, FLOAT))"),
    (lambda x: aten.div(x, 2), [i64], "RealDiv(Cast(x, FLOAT), 2.0)"),
    (lambda x, y: aten.div(x, y, rounding_mode=None), [f32, f32], "RealDiv(x, y)"),
    (lambda x, y: aten.div(x, y, rounding_mode="floor"), [f32, f32], "FloorDiv(x, y)"),
    (lambda x, y: aten.div(x, y, rounding_mode="trunc"), [i64, i64], "Div(x, y)"),
    (lambda x, y: aten.div(x, y, rounding_mode="trunc"), [f32, f32], "Trunc(RealDiv(x, y))"),
    (
        lambda x, y: aten.div(x, y, rounding_mode="trunc"),
        [f64, f64],
        "SelectV2(Less(RealDiv(x, y), 0.0:DOUBLE), Ceil(RealDiv(x, y)), Floor(RealDiv(x, y)))",
    ),
    (lambda x: aten.floor_divide(x, 3), [i64], "FloorDiv(x, 3)"),
    (lambda x, y: aten.remainder(x, y), [f32, f32], "FloorMod(x, y)"),
    (lambda x, y: aten.fmod(x, y), [f32, f32], "TruncateMod(x, y)"),
    (lambda x: aten.pow(x, 2), [f32], "Pow(x, 2.0)"),
    (lambda x: aten.pow(2, x), [f32], "Pow(2.0, x)"),
    (lambda x, y: aten.pow(x, y), [f32, f32], "Pow(x, y)"),
]

# Torch's kernels compute half types in float32 and with the exact number. A type that holds the number needs no more.
HALF_TYPES: list[tuple[Callable[..., Any], list[torch.dtype], str]] = [
    (lambda x: aten.add(x, 0.5), [bf16], "Add(x, 0.5:BF16)"),
    (lambda x: aten.div(x, 8), [f16], "RealDiv(x, 8.0:FLOAT16)"),
    (lambda x: aten.mul(x, 0.1), [bf16], "Cast(Mul(Cast(x, FLOAT), 0.10000000149011612), BF16)"),
    (lambda x: aten.pow(x, 0.3), [f16], "Cast(Pow(Cast(x, FLOAT), 0.30000001192092896), FLOAT16)"),
    (
        lambda x, y: aten.add(x, y, alpha=0.1),
        [bf16, bf16],
        "Cast(AxpyV2(Cast(x, FLOAT), Cast(y, FLOAT), 0.10000000149011612), BF16)",
    ),
    (lambda x: aten.gt(x, 0.1), [bf16], "Greater(x, 0.10009765625:BF16)"),
    (lambda x, y: aten.div(x, y, rounding_mode="trunc"), [bf16, bf16], "Trunc(RealDiv(x, y))"),
]

COMPARISONS: list[tuple[Callable[..., Any], list[torch.dtype], str]] = [
    (lambda x, y: aten.eq(x, y), [i64, i32], "Equal(x, Cast(y, INT64))"),
    (lambda x, y: aten.ne(x, y), [i64, f32], "NotEqual(Cast(x, FLOAT), y)"),
    (lambda x: aten.ge(x, 2.5), [i64], "GreaterEqual(Cast(x, FLOAT), 2.5)"),
    (lambda x: aten.le(x, 0), [i32], "LessEqual(x, 0:INT32)"),
    (lambda x, y: aten.lt(x, y), [f32, f32], "Less(x, y)"),
    (lambda x, y: aten.logical_and(x, y), [i64, flags], "LogicalAnd(Cast(x, BOOL), y)"),
    (lambda x, y: aten.logical_or(x, y), [flags, flags], "LogicalOr(x, y)"),
    (lambda x, y: aten.logical_xor(x, y), [flags, flags], "NotEqual(x, y)"),
    (lambda x: aten.logical_not(x), [f32], "LogicalNot(Cast(x, BOOL))"),
    (lambda x, y: aten.bitwise_and(x, y), [flags, flags], "LogicalAnd(x, y)"),
    (lambda x, y: aten.bitwise_or(x, y), [i64, i32], "BitwiseOr(x, Cast(y, INT64))"),
    (lambda x, y: aten.bitwise_xor(x, y), [flags, flags], "NotEqual(x, y)"),
    (lambda x: aten.bitwise_and(x, 1), [i64], "BitwiseAnd(x, 1)"),
    (lambda x: aten.bitwise_not(x), [flags], "LogicalNot(x)"),
    (lambda x: aten.bitwise_not(x), [i32], "Invert(x)"),
    (lambda x: aten.bitwise_not(x), [u8], "Invert(x)"),
    (lambda x: aten.isnan(x), [f32], "NotEqual(x, x)"),
    (lambda x: aten.isinf(x), [f32], "IsInf(x)"),
    (lambda x: aten.isinf(x), [bf16], "IsInf(Cast(x, FLOAT))"),
    (lambda x: aten.isinf(x), [i64], "LogicalAnd(Cast(x, BOOL), False)"),
]

FUNCTIONS: list[tuple[Callable[..., Any], list[torch.dtype], str]] = [
    (lambda x: aten.abs(x), [i64], "Abs(x)"),
    (lambda x: aten.cos(x), [i64], "Cos(Cast(x, FLOAT))"),
    (lambda x: aten.exp(x), [f32], "Exp(x)"),
    (lambda x: aten.erf(x), [f32], "Erf(x)"),
    (lambda x: aten.log(x.abs()), [f32], "Log(Abs(x))"),
    (lambda x: aten.log(x), [i64], "Log(Cast(x, FLOAT))"),
    (lambda x: aten.log2(x.abs()), [f32], "Log(Abs(x), base=2)"),
    (lambda x: aten.log10(x.abs()), [f32], "Log(Abs(x), base=10)"),
    (lambda x: aten.log1p(x.abs()), [f32], "Log1p(Abs(x))"),
    (lambda x: aten.neg(x), [f32], "Neg(x)"),
    (lambda x: aten.relu(x), [f32], "Relu(x)"),
    (lambda x: aten.rsqrt(x), [f32], "Rsqrt(x)"),
    (lambda x: aten.sigmoid(x), [f32], "Sigmoid(x)"),
    (lambda x: aten.silu(x), [f32], "Swish(x)"),
    (lambda x: aten.sin(x), [f32], "Sin(x)"),
    (lambda x: functional.softplus(x), [f32], "SoftplusV2(x)"),
    (lambda x: functional.softplus(x, 2.0, 1.5), [f32], "SoftplusV2(x, beta=2, threshold=1.5)"),
    (lambda x: aten.tanh(x), [f32], "Tanh(x)"),
    (lambda x: aten.trunc(x), [f32], "Trunc(x)"),
    (lambda x: functional.gelu(x), [f32], "GeluV2(x)"),
    (lambda x: functional.gelu(x, approximate="tanh"), [f32], "GeluV2(x, approximate='tanh')"),
    (lambda x: functional.hardtanh(x), [f32], "ClipByValueV2(x, -1.0, 1.0)"),
    (lambda x, y: torch.maximum(x, y), [f32, f32], "Maximum(x, y)"),
    (lambda x, y: torch.minimum(x, y), [i64, i64], "Minimum(x, y)"),
    (lambda x: x.clamp(-1, 2), [f32], "ClipByValueV2(x, -1.0, 2.0)"),
    (lambda x: x.clamp(min=0), [i32], "ClipByValueV2(x, 0:INT32, 2147483647:INT32)"),
    (lambda x: x.clamp(max=3), [f32], "ClipByValueV2(x, -inf, 3.0)"),
    (lambda x, y: torch.clamp(x, min=y), [f32, f32], "Maximum(x, y)"),
    (lambda x, y, z: torch.clamp(x, y, z), [f32, f32, f32], "Minimum(Maximum(x, y), z)"),
    (lambda c, x, y: torch.where(c, x, y), [flags, f32, i64], "SelectV2(c, x, Cast(y, FLOAT))"),
    (lambda c, x: torch.where(c, x, 0.5), [flags, f32], "SelectV2(c, x, 0.5)"),
    (lambda x, m: x.masked_fill(m, -math.inf), [f32, flags], "MaskedFill(x, m, -inf)"),
]


CASES = [*ARITHMETIC, *HALF_TYPES, *COMPARISONS, *FUNCTIONS]
by_case = pytest.mark.parametrize(("function", "dtypes", "expected"), CASES, ids=[text for *_, text in CASES])


@by_case
def test_functions_become_the_expected_operators(
    function: Callable[..., Any], dtypes: list[torch.dtype], expected: str
) -> None:
    assert converted(function, *of(*dtypes)) == expected


@by_case
def test_converted_functions_keep_their_values(
    function: Callable[..., Any], dtypes: list[torch.dtype], expected: str
) -> None:
    check_values(function, *of(*dtypes))


def test_a_tensor_that_fills_is_no_number() -> None:
    x, mask = of(f32, flags)
    assert converted(lambda x, m, v: x.masked_fill(m, v), x, mask, torch.ones((), dtype=i64)) == (
        "SelectV2(m, Cast(v, FLOAT), x)"
    )


def test_scalars_do_not_promote_tensors() -> None:
    """A tensor of rank 0 has the type of the other operand, if both are floats."""
    x, scalar = torch.ones(2), torch.ones((), dtype=f64)
    assert converted(lambda x, y: aten.add(x, y), x, scalar) == "Add(x, Cast(y, FLOAT))"
    assert converted(lambda x, y: aten.gt(x, y), x, scalar) == "Greater(x, Cast(y, FLOAT))"
