# SPDX-License-Identifier: Apache-2.0
"""Quantise and dequantise of torch.ao's reference models as generated code, against eager."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

import npugraph
from tests.python.backend.checks import assert_same, compile_ex

GENERATE = {"generate_code": True}
LIMITS = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32768, 32767)}


@pytest.fixture(autouse=True)
def no_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def ops():
    return torch.ops.quantized_decomposed


def kinds() -> list[str]:
    return [task.kind for task in npugraph.artifacts()[-1].tasks]


def some_values(*sizes: int) -> torch.Tensor:
    """With ties, values beyond all limits, infinities and NaN."""
    x = torch.randn(*sizes) * 3
    x.view(-1)[:8] = torch.tensor([0.05, -0.15, 0.25, 1e9, -1e9, float("inf"), float("-inf"), float("nan")])
    return x


def check(fn, *args, generated: bool = True) -> None:
    got = compile_ex(fn, options=GENERATE)(*args)
    assert_same(got, fn(*args))
    assert set(kinds()) == ({"loop"} if generated else {"aten"})


@pytest.mark.parametrize("codes", list(LIMITS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_scale_for_all(codes: torch.dtype, dtype: torch.dtype) -> None:
    limits = LIMITS[codes]

    def by_numbers(x):
        q = ops().quantize_per_tensor(x, 0.1, 3, *limits, codes)
        d = ops().dequantize_per_tensor
        return q, d(q, 0.1, 3, *limits, codes), d(q, 0.1, 3, *limits, codes, out_dtype=dtype)

    def by_tensors(x, scale, zero):
        q = ops().quantize_per_tensor.tensor(x, scale, zero, *limits, codes)
        return q, ops().dequantize_per_tensor.tensor(q, scale, zero, *limits, codes, out_dtype=dtype)

    x = some_values(16, 1100).to(dtype)
    check(by_numbers, x)
    check(by_tensors, x, torch.tensor([0.3]), torch.tensor([5]))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("zero_type", [torch.int64, torch.int32])
def test_a_scale_for_each_channel(axis: int, zero_type: torch.dtype) -> None:
    def fn(x, scales, zeros):
        q = ops().quantize_per_channel(x, scales, zeros, axis, -128, 127, torch.int8)
        d = ops().dequantize_per_channel
        with_zeros = d(q, scales, zeros, axis, -128, 127, torch.int8)
        return q, with_zeros, d(q, scales, None, axis, -128, 127, torch.int8, out_dtype=torch.bfloat16)

    x = some_values(24, 40, 32)
    scales, zeros = torch.rand(x.shape[axis]) + 0.1, torch.randint(-9, 9, (x.shape[axis],), dtype=zero_type)
    got = compile_ex(fn, options=GENERATE)(x, scales, zeros)
    assert_same([t.contiguous() for t in got], [t.contiguous() for t in fn(x, scales, zeros)])
    assert set(kinds()) == {"loop"}


def test_any_number_of_rows_in_one_program() -> None:
    def fn(x):
        q = ops().quantize_per_tensor(x * 2, 0.1, 3, -128, 127, torch.int8)
        return ops().dequantize_per_tensor(q, 0.1, 3, -128, 127, torch.int8).relu()

    compiled = compile_ex(fn, options=GENERATE)
    for rows in (7, 2, 64):
        x = some_values(rows, 300)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(compiled(x), fn(x))
    assert kinds() == ["loop"]
    assert len(npugraph.artifacts()) == 1


def test_wide_integers_stay_with_torch() -> None:
    """f32 does not hold their limits."""

    def fn(x):
        return ops().quantize_per_tensor(x, 1e-9, 0, -(2**31), 2**31 - 1, torch.int32)

    check(fn, torch.randn(64, 512), generated=False)


def test_wrong_limits_raise_as_in_eager() -> None:
    def fn(x):
        return ops().quantize_per_tensor(x, 0.1, 0, -129, 127, torch.int8)

    x = torch.randn(64, 512)
    with pytest.raises(AssertionError, match="quant_min"):
        fn(x)
    with pytest.raises(Exception, match="quant_min"):
        compile_ex(fn, options=GENERATE)(x)
