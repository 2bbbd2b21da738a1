# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/quantisation/quantise.cc and quant_activations.cc."""

from __future__ import annotations

import math
import os

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_refused, integers, normal
from tests.python.device.quantised import INT4, packed, saturated, unpacked
from tests.python.forks import run_python


def channels(v, x, axis):
    shape = [1] * x.dim()
    shape[axis] = v.numel()
    return v.view(shape)


@pytest.mark.parametrize(
    ("dtype", "axis", "size"), [(torch.float32, 1, 4), (torch.float16, -1, 16), (torch.bfloat16, -1, 1)]
)
def test_quantize_rounds_and_saturates_in_both_modes(dtype: torch.dtype, axis: int, size: int) -> None:
    x, scales = normal(3, 4, 16, dtype=dtype), normal(size, seed=1).abs() / 20 + 0.01
    zero_points = integers(-5, 5, size, dtype=torch.int32)

    def reference(x, s, z, t, axis, div_mode=True):
        s, z = channels(s, x, axis), channels(z, x, axis)
        return saturated(torch.round(x / s) + z if div_mode else x * s + z)

    check(torch_npu.npu_quantize, (x, scales, zero_points, torch.int8, axis), reference)
    check(torch_npu.npu_quantize, (x, scales, zero_points, torch.qint8, axis), reference, div_mode=True)
    if axis == -1:
        for given in (-1, 1):  # without div_mode, what is not -2 stands for the last dimension
            args = (x, 1 / scales, zero_points, torch.int8, given, False)
            check(torch_npu.npu_quantize, args, lambda *args: reference(*args[:4], -1, False), compiled=given == 1)
        args = (x, normal(4, seed=2).abs(), None, torch.int8, -2, False)
        check(torch_npu.npu_quantize, args, lambda x, s, *_: saturated(x * s[:, None]), compiled=False)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "storage"),
    [
        (torch.quint8, 0, 255, torch.uint8),
        (torch.uint8, 0, 255, torch.uint8),
        (torch.qint32, -(2**31), 2**31 - 1, torch.int32),
    ],
)
def test_quantize_types(dtype: torch.dtype, low: int, high: int, storage: torch.dtype) -> None:
    def reference(x, s, z, t, axis):
        return saturated(x / s, low, high, storage)

    x = torch.tensor([[-1e12, -4.0, 0.5, 1.5, 2.5, 300.0, 1e12]])
    check(torch_npu.npu_quantize, (x, torch.ones(1), None, dtype, -1), reference, dynamic=False)


def test_quantize_int4() -> None:
    x = normal(3, 16) * 5

    def reference(x, s, z, t, axis, div_mode):
        return packed(saturated(x * s, -8, 7))

    for dtype in (torch.quint4x2, INT4):
        check(torch_npu.npu_quantize, (x, torch.ones(16), None, dtype, -1, False), reference)
    want = unpacked(torch_npu.npu_quantize(x, torch.ones(16), None, torch.quint4x2, -1, False))
    assert torch.equal(want, saturated(x, -8, 7).long())


def dynamic_quant(x, *, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken", dst_type_max=0.0):
    if smooth_scales is not None and group_index is not None:
        rows, start = [], 0
        for end, row in zip(group_index.tolist(), smooth_scales, strict=True):
            rows += [row] * (end - start)
            start = end
        x = x * torch.stack(rows).view_as(x)
    elif smooth_scales is not None:
        x = x * smooth_scales
    dims = {"pertoken": (-1,), "perchannel": (-2,), "pertensor": tuple(range(x.dim()))}[quant_mode]
    largest = x.abs().amax(dims, keepdim=True)
    top = dst_type_max or (7 if dst_type == INT4 else 127)
    scale = largest / top
    y = saturated(x / scale.where(scale != 0, 1), -8 if dst_type == INT4 else -128, 7 if dst_type == INT4 else 127)
    scale = scale.view(1) if quant_mode == "pertensor" else scale.squeeze(dims)
    return packed(y) if dst_type == INT4 else y, scale


@pytest.mark.parametrize(
    ("dtype", "quant_mode"), list(zip(FLOATING, ["pertensor", "perchannel", "pertoken"], strict=True))
)
def test_dynamic_quant(dtype: torch.dtype, quant_mode: str) -> None:
    x = normal(3, 4, 16, dtype=dtype)
    x[1] = 0
    check(torch_npu.npu_dynamic_quant, (x,), dynamic_quant, quant_mode=quant_mode)
    smooth = normal(16, dtype=dtype, seed=1)
    check(torch_npu.npu_dynamic_quant, (x,), dynamic_quant, quant_mode=quant_mode, smooth_scales=smooth)


def test_dynamic_quant_results_have_the_documented_types() -> None:
    y, scale = torch_npu.npu_dynamic_quant(normal(3, 4, 16, dtype=torch.bfloat16))
    assert (y.dtype, y.shape, scale.dtype, scale.shape) == (torch.int8, (3, 4, 16), torch.float32, (3, 4))


def test_dynamic_quant_of_groups() -> None:
    args = (normal(2, 3, 8, dtype=torch.float16),)
    smooth = normal(3, 8, dtype=torch.float16, seed=1)
    ends = torch.tensor([2, 2, 6], dtype=torch.int32)
    check(torch_npu.npu_dynamic_quant, args, dynamic_quant, smooth_scales=smooth, group_index=ends)


@pytest.mark.parametrize("quant_mode", ["pertoken", "pertensor"])
def test_dynamic_quant_int4(quant_mode: str) -> None:
    x = integers(-7, 8, 4, 16).float()
    x[:, 0] = 7  # the scale is 1, and no value lies between two
    check(torch_npu.npu_dynamic_quant, (x,), dynamic_quant, dst_type=INT4, quant_mode=quant_mode)


def test_dynamic_quant_to_float8() -> None:
    x = normal(4, 16)
    y, scale = torch_npu.npu_dynamic_quant(x.npu(), dst_type=torch.float8_e4m3fn)
    assert y.dtype == torch.float8_e4m3fn
    torch.testing.assert_close(scale.cpu(), x.abs().amax(-1) / 448)
    torch.testing.assert_close(y.cpu().float() * scale.cpu()[:, None], x, rtol=0.0626, atol=1e-3)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_anti_quant(dtype: torch.dtype | None) -> None:
    x, scale, offset = integers(-128, 128, 4, 16, dtype=torch.int8), normal(16, seed=1), normal(16, seed=2)
    kwargs = {} if dtype is None else {"dst_dtype": dtype}
    check(torch_npu.npu_anti_quant, (x, scale), lambda x, s, **_: x * s, **kwargs)
    check(torch_npu.npu_anti_quant, (x, scale), lambda x, s, offset, **_: (x + offset) * s, offset=offset, **kwargs)
    floats = normal(4, 16, seed=3).to(torch.float8_e4m3fn)
    of_bytes = {"src_dtype": torch.float8_e4m3fn, **kwargs}
    check(
        torch_npu.npu_anti_quant, (floats.view(torch.uint8), scale), lambda x, s, **_: floats.double() * s, **of_bytes
    )
    pairs = integers(0, 256, 4, 8, dtype=torch.uint8)
    halves = torch.stack((pairs % 16, pairs // 16), -1).flatten(1).long()  # e2m1: a sign and three bits
    exact = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6]).double()[halves % 8] * torch.where(halves < 8, 1, -1)
    of_pairs = {"src_dtype": torch_npu.float4_e2m1fn_x2, **kwargs}
    check(torch_npu.npu_anti_quant, (pairs, scale), lambda x, s, **_: exact * s, **of_pairs)
    words = integers(-(2**31), 2**31, 4, 2, dtype=torch.int32)
    check(torch_npu.npu_anti_quant, (words, scale), lambda x, s, **_: unpacked(x) * s, **kwargs)


def test_int4_words() -> None:
    values = integers(-8, 8, 3, 16, dtype=torch.int32)
    check(torch_npu.npu_convert_weight_to_int4pack, (values,), packed)
    words = torch_npu.npu_convert_weight_to_int4pack(torch.tensor([[1, 2, 3, 4, 5, 6, 7, -8]], dtype=torch.int32).npu())
    assert words.item() == 0x87654321 - (1 << 32)


def asymmetric(x, quant_mode="pertoken", dst_type=None):
    low, high = (-8, 7) if dst_type == INT4 else (-128, 127)
    dims = {"pertoken": (-1,), "perchannel": (-2,), "pertensor": tuple(range(x.dim()))}[quant_mode]
    largest, least = x.amax(dims, keepdim=True), x.amin(dims, keepdim=True)
    scale = (largest - least) / (high - low)
    scale = scale.where(scale != 0, 1)
    offset = high - largest / scale
    y = saturated(x / scale + offset, low, high)
    scale, offset = (v.view(1) if quant_mode == "pertensor" else v.squeeze(dims) for v in (scale, offset))
    return packed(y) if dst_type == INT4 else y, scale, offset


@pytest.mark.parametrize("quant_mode", ["pertoken", "perchannel", "pertensor"])
def test_dynamic_quant_asymmetric(quant_mode: str) -> None:
    x = normal(3, 4, 16)
    x[1] = 2
    check(torch_npu.npu_dynamic_quant_asymmetric, (x,), asymmetric, quant_mode=quant_mode)


def test_dynamic_quant_asymmetric_int4() -> None:
    x = integers(-8, 8, 4, 16).float()
    x[:, 0], x[:, 1] = -8, 7  # the scale is 1, and no value lies between two
    check(torch_npu.npu_dynamic_quant_asymmetric, (x,), asymmetric, dst_type=INT4)


def rows_of(table, counts):
    return torch.cat([row.expand(n, *row.shape) for row, n in zip(table, counts, strict=True)])


def test_group_quant() -> None:
    args = (normal(6, 8) * 9, normal(3, 8, seed=1) * 9, torch.tensor([2, 2, 6], dtype=torch.int32))
    op, counts = torch_npu.npu_group_quant, [2, 0, 4]
    offset = {"offset": torch.tensor([3.0])}
    check(op, args, lambda x, s, ends, offset: saturated(x * rows_of(s, counts) + offset), **offset)
    int4 = {"dst_dtype": torch.quint4x2}
    check(op, args, lambda x, s, ends, dst_dtype: packed(saturated(x * rows_of(s, counts), -8, 7)), **int4)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantised_into_a_result(device: str) -> None:
    x, scales, zero_points = normal(3, 4).to(device), torch.full((4,), 0.02).to(device), torch.arange(4).to(device)
    result = torch.empty(3, 4, dtype=torch.int8, device=device)
    want = saturated(torch.round(x.cpu().double() / scales.cpu()) + torch.arange(4))
    torch.ops.npu._quantize_per_channel_impl.out(x, scales, zero_points, 1, torch.qint8, result=result)
    assert torch.equal(result.cpu(), want)
    torch.ops.npu._quantize_per_tensor_impl.out(x, scales[:1], zero_points[2:3], torch.qint8, result=result)
    assert torch.equal(result.cpu(), saturated(torch.round(x.cpu().double() / scales[:1].cpu()) + 2))


def dequantised(x, weight_scale, activation_scale, bias):
    if bias is not None and bias.dtype == torch.int32:
        x, bias = x + bias, None
    y = x.double() * weight_scale
    y = y if activation_scale is None else y * activation_scale.view(-1, 1)
    return y if bias is None else y + bias


@pytest.mark.parametrize(("bias_dtype", "dtype"), [(torch.int32, None), (torch.float32, torch.bfloat16)])
def test_dequant_bias(bias_dtype: torch.dtype, dtype: torch.dtype | None) -> None:
    bias = integers(-99, 99, 8, seed=3).to(bias_dtype)
    args = (integers(-9999, 9999, 5, 8, dtype=torch.int32), normal(8, seed=1) / 100, normal(5, seed=2), bias)
    kwargs = {} if dtype is None else {"output_dtype": dtype}
    check(torch_npu.npu_dequant_bias, args, lambda x, w, a, b, **_: dequantised(x, w, a, b), **kwargs)
    check(torch_npu.npu_dequant_bias, (*args[:2], None, None), lambda x, w, a, b: dequantised(x, w, a, b))


def gated(x, dim=-1, left=False, mode=0, limit=7.0, alpha=1.702, bias=1.0):
    silu = torch.nn.functional.silu
    a, b = x.chunk(2, dim)
    a, b = (a, b) if left else (b, a)
    if mode == 1:
        a, b = x.unflatten(dim, (-1, 2)).unbind(dim if dim >= 0 else -1)
    if mode == 0:
        return silu(a) * b
    a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    return a * torch.sigmoid(alpha * a) * (b + bias)


def quantised_rows(x, scale, offset, mode, divides):
    if mode == 1:
        return dynamic_quant(x, smooth_scales=None if scale is None else scale)
    x = x if scale is None else x / scale if divides else x * scale
    return saturated(x if offset is None else x + offset), torch.zeros(x.shape[:-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activate_left", [False, True])
@pytest.mark.parametrize("quant_mode", [0, 1])
def test_dequant_swiglu_quant(dtype: torch.dtype, activate_left: bool, quant_mode: int) -> None:
    def reference(x, quant_scale, quant_offset=None, **_):
        return quantised_rows(gated(x, left=activate_left), quant_scale, quant_offset, quant_mode, divides=True)

    kwargs = {"quant_scale": normal(8, seed=1).abs() / 30 + 0.01, "activate_left": activate_left}
    kwargs |= {"quant_mode": quant_mode} | ({"quant_offset": normal(8, seed=2)} if quant_mode == 0 else {})
    check(torch_npu.npu_dequant_swiglu_quant, (normal(5, 16, dtype=dtype),), reference, **kwargs)


@pytest.mark.parametrize("swiglu_mode", [1, 2])
def test_dequant_swiglu_quant_modes(swiglu_mode: int) -> None:
    kwargs = {"swiglu_mode": swiglu_mode, "clamp_limit": 1.5, "glu_alpha": 1.5, "glu_bias": 0.5}

    def reference(x, **_):
        return dynamic_quant(gated(x, mode=swiglu_mode, limit=1.5, alpha=1.5, bias=0.5))

    check(torch_npu.npu_dequant_swiglu_quant, (normal(2, 5, 16),), reference, quant_mode=1, **kwargs)


def test_dequant_swiglu_quant_of_groups() -> None:
    x, counts = integers(-9999, 9999, 6, 16, dtype=torch.int32), torch.tensor([2, 0, 4])
    kwargs = {
        "weight_scale": normal(3, 16, seed=1).abs() / 1000,
        "activation_scale": normal(6, seed=2).abs(),
        "bias": integers(-99, 99, 3, 16, dtype=torch.int32, seed=3),
        "quant_scale": normal(3, 8, seed=4).abs(),
        "group_index": counts,
    }

    def reference(x, weight_scale, activation_scale, bias, quant_scale, **_):
        weight_scale, bias, quant_scale = (rows_of(v, counts.tolist()) for v in (weight_scale, bias, quant_scale))
        return dynamic_quant(gated(dequantised(x, weight_scale, activation_scale, bias)) * quant_scale)

    check(torch_npu.npu_dequant_swiglu_quant, (x,), reference, quant_mode=1, **kwargs)
    kwargs["quant_scale"] = torch.tensor([1.0, 2.0, 3.0])
    check(
        torch_npu.npu_dequant_swiglu_quant,
        (x,),
        lambda x, quant_scale, **kwargs: reference(x, quant_scale=quant_scale[:, None], **kwargs),
        quant_mode=1,
        **kwargs,
    )


@pytest.mark.parametrize(("quant_mode", "group_list_type"), [(0, 0), (1, 1)])
def test_swiglu_quant(quant_mode: int, group_list_type: int) -> None:
    x, groups = normal(6, 16, dtype=torch.float16), torch.tensor([[2, 2, 6], [2, 0, 4]][group_list_type])
    kwargs = {"smooth_scales": normal(3, 8, seed=1).abs() * 20, "group_index": groups}
    if quant_mode == 0:
        kwargs["offsets"] = normal(3, 8, seed=2)

    def of_910b(values, scale):
        return values, scale if quant_mode == 0 else 1 / scale

    def reference(x, smooth_scales, offsets=None, **_):
        smooth_scales, offsets = (None if v is None else rows_of(v, [2, 0, 4]) for v in (smooth_scales, offsets))
        return of_910b(*quantised_rows(gated(x), smooth_scales, offsets, quant_mode, divides=False))

    kwargs |= {"quant_mode": quant_mode, "group_list_type": group_list_type}
    check(torch_npu.npu_swiglu_quant, (x,), reference, **kwargs)
    if quant_mode == 1:
        op = torch_npu.npu_swiglu_quant
        check(op, (x.view(2, 3, 16),), lambda x, **_: of_910b(*dynamic_quant(gated(x))), quant_mode=1)


def test_scales_of_swiglu_quant_of_an_npu_after_910b() -> None:
    code = """
import torch, torch_npu
print(torch_npu.npu_swiglu_quant(torch.tensor([[-3.0, 2.0]]).npu(), quant_mode=1)[1].item())
"""
    environment = os.environ | {"NPUGRAPH_SOC_VERSION": "260"}
    printed = run_python("-c", code, env=environment, check=True).stdout
    assert float(printed) == pytest.approx(3 * 2 / (1 + math.exp(-2)) / 127)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_quant(approximate: str) -> None:
    x, scale, offset = normal(5, 8, dtype=torch.float16), normal(8, seed=1).abs() * 40, normal(8, seed=2)

    def gelu(x):
        return torch.nn.functional.gelu(x, approximate=approximate)

    op = torch_npu.npu_gelu_quant
    check(op, (x,), lambda x, **_: dynamic_quant(gelu(x)), approximate=approximate)

    def reference(x, input_scale, input_offset, **_):
        return saturated(gelu(x) * input_scale + input_offset), torch.empty(0)

    kwargs = {"input_scale": scale, "input_offset": offset, "quant_mode": "static"}
    check(op, (x,), reference, approximate=approximate, **kwargs)


def test_errors_of_activations() -> None:
    x = normal(4, 16)
    refused = check_refused
    refused("npu_dequant_bias", r"x is of type Float, allowed are Int", x, torch.ones(16), None, None)
    half = {"output_dtype": torch.float32}
    refused("npu_dequant_bias", r"output_dtype is Float, allowed are Half", x.int(), torch.ones(16), None, None, **half)
    swiglu = "npu_dequant_swiglu_quant"
    refused(swiglu, r"x is of type Int, and weight_scale is not given", x.int())
    refused(swiglu, r"quant_mode is 2, allowed are 0 \(static\) and 1", x, quant_mode=2)
    refused(swiglu, r"swiglu_mode is 3, allowed are 0, 1 and 2", x, swiglu_mode=3)
    refused(swiglu, r"round_mode is 1, allowed is 0", x, round_mode=1)
    refused(swiglu, r"dimension -1 of x has size 3, which has no two halves", x[:, :3])
    refused(swiglu, r"x has 3 dimensions, allowed with group_index are 2", x[None], group_index=torch.tensor([4]))
    refused("npu_swiglu_quant", r"group_list_type is 2, allowed are 0", x, group_list_type=2)
    refused("npu_gelu_quant", r'quant_mode is "other", allowed are "static"', x, quant_mode="other")
    refused("npu_gelu_quant", r'round_mode is "floor", allowed is "rint"', x, round_mode="floor")
    refused("npu_gelu_quant", r'quant_mode is "static", and input_scale is not given', x, quant_mode="static")
    largest = {"dst_type_max": 3.0}
    refused("npu_dynamic_quant_asymmetric", r"dst_type_max is 3 and dst_type Char, allowed are 0", x, **largest)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, one = normal(3, 4, 16), torch.ones(1)
    refused = check_refused
    refused("npu_quantize", r"scales has 3 values, allowed are 1 and 16", x, torch.ones(3), None, torch.int8, -1)
    refused("npu_quantize", r"dtype is Long, allowed are int8", x, one, None, torch.int64, -1)
    refused("npu_quantize", r"axis is -3, allowed without div_mode are -2 and", x, one, None, torch.int8, -3, False)
    refused("npu_dynamic_quant", r'quant_mode is "perrow", allowed are "pertoken"', x, quant_mode="perrow")
    refused("npu_dynamic_quant", r"group_index selects rows of smooth_scales, which", x, group_index=one.int())
    refused("npu_dynamic_quant", r"smooth_scales has shape \[1\], allowed is \[16\]", x, smooth_scales=one)
    refused("npu_dynamic_quant", r"the last dimension has 12 values of int4", x[..., :12], dst_type=INT4)
    refused("npu_dynamic_quant", r"input is of type Int", x.int())
    refused("npu_anti_quant", r"x is of type Float, allowed are Char, Int", x, one)
    refused("npu_anti_quant", r"dst_dtype is Char, allowed are Half", x.char(), one, dst_dtype=torch.int8)
    refused("npu_convert_weight_to_int4pack", r"weight is of type Float", x)
