# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/quantisation/mx_quant.cc, by the OCP Microscaling Formats specification, v1.0."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.microscaled import FLOAT4, TYPES, as_bytes, blocks, of_float4
from tests.python.device.npu_operators import check, check_refused, normal
from tests.python.device.quantised import saturated


@pytest.mark.parametrize("dst_type", TYPES)
@pytest.mark.parametrize(("size", "axis"), [((3, 64), -1), ((2, 70, 4), 1), ((3, 40), -1)])
def test_dynamic_mx_quant(dst_type: torch.dtype | int, size: tuple[int, ...], axis: int) -> None:
    x = normal(*size) * 8
    x[0] = 0

    def op(x):
        return as_bytes(torch_npu.npu_dynamic_mx_quant(x, axis=axis, dst_type=dst_type))

    check(op, (x,), lambda x: blocks(x, axis, dst_type))


def test_types_of_results() -> None:
    y, scale = torch_npu.npu_dynamic_mx_quant(normal(3, 64).bfloat16().npu(), dst_type=torch.float8_e4m3fn)
    assert (y.dtype, scale.dtype, scale.shape) == (torch.float8_e4m3fn, torch.uint8, (3, 1, 2))
    y, scale = torch_npu.npu_dynamic_mx_quant(normal(3, 64).bfloat16().npu())
    assert (y.dtype, y.shape, scale.dtype, scale.shape) == (torch.uint8, (3, 32), torch.uint8, (3, 1, 2))


def test_all_values_of_float4() -> None:
    x = torch.cat([FLOAT4, -FLOAT4, torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25])]).float()
    x = torch.cat([x, torch.full((8,), 6.0)])[None]
    y, scale = torch_npu.npu_dynamic_mx_quant(x.npu())
    want = [*FLOAT4.tolist(), *(-FLOAT4).tolist(), 0, 1, 1, 2, 2, 4, 4, 0, *[6] * 8]
    assert of_float4(y.cpu())[0].tolist() == want
    assert scale.cpu().view(torch.uint8)[0, 0, 0] == 127


def test_infinities_are_nan_blocks() -> None:
    y, scale = torch_npu.npu_dynamic_mx_quant(torch.full((1, 32), math.inf).npu(), dst_type=torch.float8_e4m3fn)
    assert scale.cpu().view(torch.uint8)[0, 0, 0] == 255 and y.cpu().float().isnan().all()


@pytest.mark.parametrize("dst_type", TYPES)
def test_anti_mx_quant(dst_type: torch.dtype | int) -> None:
    x = normal(3, 70)
    y, scale = torch_npu.npu_dynamic_mx_quant(x, dst_type=dst_type)
    source = 292 if dst_type == torch.float8_e4m3fn else 291 if dst_type == torch.float8_e5m2 else 296

    def op(y, scale):
        return torch_npu.npu_anti_mx_quant(y, scale, dst_type=torch.float32, src_type=source)

    def reference(y, scale):
        exact = of_float4(y) if dst_type == 296 else y.view(dst_type).double()
        return exact * (2.0 ** (scale.double() - 127)).flatten(1).repeat_interleave(32, 1)[:, :70]

    check(op, as_bytes((y, scale)), reference)
    back = op(y.npu(), scale.npu()).cpu()
    torch.testing.assert_close(back, x, rtol=0.26, atol=0.5)


def test_dual_axis() -> None:
    def op(x):
        return as_bytes(torch_npu.npu_dynamic_mx_quant_with_dual_axis(x, dst_type=torch.float8_e5m2))

    check(op, (normal(40, 6),), lambda x: (*blocks(x, -1, torch.float8_e5m2), *blocks(x, -2, torch.float8_e5m2)))


def test_swiglu_mx_quant() -> None:
    def op(x):
        return as_bytes(torch_npu.npu_swiglu_mx_quant(x, dst_type=torch.float8_e5m2, activate_left=True))

    x = torch.zeros(3, 80)
    x[:, :40], x[:, 40:] = 40, normal(3, 40)  # silu(40) is 40 in float32
    check(op, (x,), lambda x: blocks(x[:, 40:].float() * 40, -1, torch.float8_e5m2))


@pytest.mark.parametrize(("rows", "columns"), [(1, 16), (4, 8)])
def test_dynamic_block_quant(rows: int, columns: int) -> None:
    def op(x):
        return torch_npu.npu_dynamic_block_quant(x, row_block_size=rows, col_block_size=columns, min_scale=0.005)

    def reference(x):
        scale = torch.zeros(math.ceil(x.shape[0] / rows), math.ceil(x.shape[1] / columns), dtype=x.dtype)
        y = torch.zeros_like(x)
        for i in range(scale.shape[0]):
            for j in range(scale.shape[1]):
                at = (slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns))
                scale[i, j] = max(x[at].abs().max() / 127, 0.005)
                y[at] = saturated(x[at] / scale[i, j])
        return y.to(torch.int8), scale

    x = normal(6, 20)
    x[:, :8] = 0
    check(op, (x,), reference)


def test_products_of_blocks() -> None:
    x, weight = normal(5, 70), normal(6, 70, seed=1)
    for dst_type in (torch.float8_e4m3fn, 296):
        a, a_scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=dst_type)
        b, b_scale = torch_npu.npu_dynamic_mx_quant(weight.npu(), dst_type=dst_type)
        code = 292 if dst_type == torch.float8_e4m3fn else 296
        exact = [
            torch_npu.npu_anti_mx_quant(y, scale, dst_type=torch.float32, src_type=code).cpu().double()
            for y, scale in ((a, a_scale), (b, b_scale))
        ]
        codes = {"x1_dtype": code, "x2_dtype": code, "scale_dtype": 293, "pertoken_scale_dtype": 293}
        got = torch_npu.npu_quant_matmul(a, b.t(), b_scale.transpose(0, 1), pertoken_scale=a_scale,
                                         output_dtype=torch.float32, **codes)  # fmt: skip
        torch.testing.assert_close(got.cpu().double(), exact[0] @ exact[1].t(), rtol=1e-5, atol=1e-5)
        del codes["scale_dtype"], codes["pertoken_scale_dtype"]
        for dtype in (torch.uint8, torch.float8_e8m0fnu):  # these types need no code
            scales = b_scale.view(dtype).transpose(0, 1), a_scale.view(dtype)
            same = torch_npu.npu_quant_matmul(a, b.t(), scales[0], pertoken_scale=scales[1],
                                              output_dtype=torch.float32, **codes)  # fmt: skip
            assert torch.equal(same, got)


def test_transposed_products_of_blocks() -> None:
    x, weight = normal(5, 4, 70), normal(4, 70, 6, seed=1)
    a, a_scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=torch.float8_e4m3fn)
    b, b_scale = torch_npu.npu_dynamic_mx_quant(weight.npu(), axis=1, dst_type=torch.float8_e4m3fn)
    exact = (
        torch_npu.npu_anti_mx_quant(a, a_scale, dst_type=torch.float32).cpu().transpose(0, 1)
        @ torch_npu.npu_anti_mx_quant(b, b_scale, axis=1, dst_type=torch.float32).cpu()
    ).transpose(0, 1)
    op = torch_npu.npu_transpose_quant_batchmatmul
    got = op(a, b, torch.float32, x1_scale=a_scale, x2_scale=b_scale)
    torch.testing.assert_close(got.cpu(), exact, rtol=1e-4, atol=1e-4)
    turned = b.transpose(1, 2).contiguous(), b_scale.transpose(1, 2).contiguous()
    got = op(a, turned[0], torch.float32, x1_scale=a_scale, x2_scale=turned[1], perm_x2=[0, 2, 1])
    torch.testing.assert_close(got.cpu(), exact, rtol=1e-4, atol=1e-4)


def test_scales_that_saturate_nothing() -> None:
    x = normal(6, 32) * 2.0 ** torch.tensor([0, -130, -150, 100, 0, 3])[:, None]
    x[4] = 448 * 2.0**5  # 448 is the greatest float8_e4m3fn, so the scale is exactly 2**5

    def op(x):
        return as_bytes(torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn, scale_alg=1))

    check(op, (x,), lambda x: blocks(x, -1, torch.float8_e4m3fn, rounds_up=True))


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x = normal(3, 64)
    refused, op = check_refused, "npu_dynamic_mx_quant"
    refused(op, r'round_mode is "floor", allowed is "rint"', x, round_mode="floor")
    refused(op, r"scale_alg is 2, allowed are 0 .* and 1 ", x, scale_alg=2)
    refused(op, r"block_size is 64, allowed is 32", x, block_size=64)
    refused(op, r"dst_type is Char, allowed are float8_e4m3fn, float8_e5m2 and float4_e2m1", x, dst_type=torch.int8)
    refused(op, r"the last dimension has 33 values of float4, which do not fill bytes", normal(2, 33))
    refused("npu_anti_mx_quant", r"mxscale has 2 dimensions, allowed is 3, one more than x", x.byte(), x.byte())
    message = r"blocks are of 0 by 128 values, allowed are positive sizes"
    refused("npu_dynamic_block_quant", message, x, row_block_size=0)
