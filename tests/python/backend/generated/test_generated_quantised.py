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
    """Returns random values, and among them ties, values beyond all limits, infinities and NaN."""
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
    """float32 cannot represent their limits."""

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


def layer(zeros: torch.Tensor | None, rows: int, bias: bool = True) -> tuple:
    """Returns a linear layer whose inputs and weights are quantised, and its arguments."""

    def fn(x, codes, scales, zeros, bias):
        d = ops().dequantize_per_tensor
        x = d(ops().quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8), 0.02, 3, -128, 127, torch.int8)
        weights = ops().dequantize_per_channel(codes, scales, zeros, 0, -128, 127, torch.int8)
        return torch.nn.functional.linear(x, weights, bias)

    codes = torch.randint(-128, 128, (96, 256), dtype=torch.int8)
    scales = torch.rand(96) / 50 + 0.01
    return fn, (torch.randn(rows, 256), codes, scales, zeros, torch.randn(96) if bias else None)


def exact(x, codes, scales, zeros, bias) -> torch.Tensor:
    rounded = (torch.clamp(torch.round(x * (1 / 0.02)) + 3, -128, 127).double() - 3) * 0.02
    moved = codes.double() if zeros is None else codes.double() - zeros[:, None].double()
    return rounded @ (moved * scales.double()[:, None]).T + (0 if bias is None else bias.double())


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("zero_points", [None, "zeros", "others"])
def test_products_read_the_codes_of_their_weights(rows: int, zero_points: str | None) -> None:
    zeros = None if zero_points is None else torch.zeros(96, dtype=torch.int64)
    if zero_points == "others":
        zeros[::3] = torch.randint(-100, 100, (32,))
    fn, arguments = layer(zeros, rows, bias=zero_points != "zeros")
    aten = compile_ex(fn, options={"generate_code": False})(*arguments)
    assert "quantized_decomposed.dequantize_per_channel" in {t.name for t in npugraph.artifacts()[-1].tasks}
    torch._dynamo.reset()
    got = compile_ex(fn, options=GENERATE)(*arguments)
    tasks = npugraph.artifacts()[-1].tasks
    assert [t.name.split(".")[1] for t in tasks if t.kind == "matmul"] == ["_weight_int8pack_mm"]
    assert not any("dequantize_per_channel" in t.name for t in tasks)
    right = exact(*arguments)
    largest = right.abs().max()
    error, of_eager = (((t.double() - right).abs().max() / largest).item() for t in (got, aten))
    assert error <= max(1e-5, 2 * of_eager)


def test_rows_of_infinite_elements_are_as_in_eager() -> None:
    def fn(x, codes, scales, zeros):
        return x @ ops().dequantize_per_channel(codes, scales, zeros, 0, -128, 127, torch.int8).t()

    codes = torch.randint(1, 128, (32, 64), dtype=torch.int8)
    x = torch.randn(3, 64)
    x[1, 5] = float("inf")
    arguments = (x, codes, torch.rand(32), torch.zeros(32, dtype=torch.int64))
    torch.testing.assert_close(compile_ex(fn, options=GENERATE)(*arguments), fn(*arguments), rtol=1e-5, atol=1e-3)


def test_weights_that_change_between_dequantising_and_product() -> None:
    def fn(x, codes, scales):
        weights = ops().dequantize_per_channel(codes, scales, None, 0, -128, 127, torch.int8)
        codes.zero_()
        return x @ weights.t()

    x, codes, scales = torch.randn(3, 64), torch.randint(-9, 9, (32, 64), dtype=torch.int8), torch.rand(32)
    want = fn(x, codes.clone(), scales)
    torch.testing.assert_close(compile_ex(fn, options=GENERATE)(x, codes, scales), want)
    assert not codes.any()


def test_layers_of_any_number_of_rows() -> None:
    compiled = None
    for rows in (7, 2, 64):
        fn, arguments = layer(torch.arange(96) - 40, rows)
        compiled = compiled or compile_ex(fn, options=GENERATE)
        torch._dynamo.mark_dynamic(arguments[0], 0)
        torch.testing.assert_close(compiled(*arguments), fn(*arguments), rtol=1e-5, atol=1e-4)
    assert len(npugraph.artifacts()) == 1
