# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/matmul/mx_dual_level.cc and compressed_weights.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.microscaled import blocks, of_float4
from tests.python.device.npu_operators import check, check_refused, integers, normal


def dual_level(x):
    """Returns the values of a matrix and both levels of its scales."""
    outer = torch.stack([part.abs().amax(-1) / 6 for part in x.split(512, -1)], -1)
    divisor = torch.where(outer == 0, 1.0, outer).repeat_interleave(512, -1)[:, : x.shape[1]]
    values, inner = blocks((x.float() / divisor.float()).double())
    return values, outer, inner


def exact_of(values, outer, inner):
    k = 2 * values.shape[1]
    shared = (2.0 ** (inner.double() - 127)).flatten(1).repeat_interleave(32, 1)[:, :k]
    return of_float4(values) * shared * outer.double().repeat_interleave(512, 1)[:, :k]


@pytest.mark.parametrize("smooth", [False, True])
def test_dynamic_dual_level_mx_quant(smooth: bool) -> None:
    def op(x, smooth_scale):
        values, outer, inner = torch_npu.npu_dynamic_dual_level_mx_quant(x, smooth_scale=smooth_scale)
        return values, outer, inner.view(torch.uint8)

    x = normal(3, 600)
    x[1, 512:] = 0
    scale = 2.0 ** integers(-2, 3, 600) if smooth else None
    check(op, (x, scale), lambda x, scale: dual_level(x if scale is None else x * scale))


def operand(*size, seed=0):
    values, outer, inner = torch_npu.npu_dynamic_dual_level_mx_quant(normal(*size, seed=seed))
    return values, outer, inner.view(torch.uint8)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dual_level_quant_matmul(turned: bool, dtype: torch.dtype) -> None:
    x1, x2 = operand(5, 600), operand(6, 600, seed=1)
    if turned:
        x2 = tuple(x.transpose(0, 1) for x in x2)

    def op(x1, x2, bias):
        scales = x1[1], x2[1], *(x[2].view(torch.float8_e8m0fnu) for x in (x1, x2))
        return torch_npu.npu_dual_level_quant_matmul(x1[0], x2[0], *scales, bias=bias, output_dtype=dtype)

    def reference(x1, x2, bias):
        rows = [x.transpose(0, 1) for x in x2] if turned else x2
        return (exact_of(*x1) @ exact_of(*rows).t() + bias).to(dtype)

    check(op, (x1, x2, normal(6)), reference, compiled=turned and dtype == torch.float32)


def test_a_product_of_what_was_quantised() -> None:
    x, weight = normal(5, 1024), normal(6, 1024, seed=1)
    (a, a0, a1), (b, b0, b1) = (torch_npu.npu_dynamic_dual_level_mx_quant(y.npu()) for y in (x, weight))
    got = torch_npu.npu_dual_level_quant_matmul(a, b, a0, b0, a1, b1)
    assert got.dtype == torch.bfloat16
    want = x @ weight.t()
    assert (got.cpu().float() - want).norm() < 0.25 * want.norm()


def test_weight_quant_preprocess() -> None:
    def op(weight, scale, offset):
        return torch_npu.npu_weight_quant_preprocess(weight, scale, 1, 1, 6, weight_offset=offset)

    def reference(weight, scale, offset):
        return weight, scale, offset, torch.empty(0)

    check(op, (integers(-128, 128, 6, 4, dtype=torch.int8), normal(4), normal(4)), reference)


def test_compressed_weights_have_no_kernel() -> None:
    args = [normal(5, 8).char(), normal(20).char(), normal(3).char(), normal(1, 6).int(), normal(1, 6)]
    result = torch_npu.npu_matmul_compress_dequant(*(x.to("meta") for x in args))
    assert (result.shape, result.dtype) == ((5, 6), torch.float16)
    with pytest.raises(NotImplementedError):
        torch_npu.npu_matmul_compress_dequant(*args)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    (a, a0, a1), (b, b0, b1) = operand(5, 64), operand(6, 64)
    name = "npu_dual_level_quant_matmul"
    check_refused(name, r"output_dtype is Char, allowed are Half", a, b, a0, b0, a1, b1, output_dtype=torch.int8)
    check_refused(name, r"x2 has shape \[6, 31\], allowed are \(n, 32\) and \(32, n\)", a, b[:, :31], a0, b0, a1, b1)
    message = r"the scales of x1 have shapes \[5, 1\] and \[4, 1, 2\], allowed are \(5, 1\) and \(5, 1, 2\)"
    check_refused(name, message, a, b, a0, b0, a1[:4], b1)
    check_refused("npu_dynamic_dual_level_mx_quant", r'round_mode is "floor"', normal(2, 64), round_mode="floor")
