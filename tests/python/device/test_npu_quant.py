# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/quantise.cc and quant_activations.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_refused, integers, normal
from tests.python.device.quantised import INT4, packed, saturated, unpacked


def channels(v, x, axis):
    shape = [1] * x.dim()
    shape[axis] = v.numel()
    return v.view(shape)


@pytest.mark.parametrize(
    ("dtype", "axis", "size"), [(torch.float32, 1, 4), (torch.float16, -1, 16), (torch.bfloat16, -1, 1)]
)
def test_quantize(dtype: torch.dtype, axis: int, size: int) -> None:
    x, scales = normal(3, 4, 16, dtype=dtype), normal(size, seed=1).abs() / 20 + 0.01
    zero_points = integers(-5, 5, size, dtype=torch.int32)

    def reference(x, s, z, t, axis, div_mode=True):
        s, z = channels(s, x, axis), channels(z, x, axis)
        return saturated(torch.round(x / s) + z if div_mode else x * s + z)

    check(torch_npu.npu_quantize, (x, scales, zero_points, torch.int8, axis), reference)
    check(torch_npu.npu_quantize, (x, scales, zero_points, torch.qint8, axis), reference, div_mode=True)
    if axis == -1:
        check(torch_npu.npu_quantize, (x, 1 / scales, zero_points, torch.int8, -1, False), reference)


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
    x[:, 0] = 7  # scale 1: no value lies between two
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
    words = integers(-(2**31), 2**31, 4, 2, dtype=torch.int32)
    check(torch_npu.npu_anti_quant, (words, scale), lambda x, s, **_: unpacked(x) * s, **kwargs)


def test_int4_words() -> None:
    values = integers(-8, 8, 3, 16, dtype=torch.int32)
    check(torch_npu.npu_convert_weight_to_int4pack, (values,), packed)
    words = torch_npu.npu_convert_weight_to_int4pack(torch.tensor([[1, 2, 3, 4, 5, 6, 7, -8]], dtype=torch.int32).npu())
    assert words.item() == 0x87654321 - (1 << 32)


def test_errors() -> None:
    x, one = normal(3, 4, 16), torch.ones(1)
    refused = check_refused
    refused("npu_quantize", r"scales has 3 values, allowed are 1 and 16", x, torch.ones(3), None, torch.int8, -1)
    refused("npu_quantize", r"dtype is Long, allowed are int8", x, one, None, torch.int64, -1)
    refused("npu_quantize", r"axis is 0, allowed without div_mode are the last", x, one, None, torch.int8, 0, False)
    refused("npu_dynamic_quant", r'quant_mode is "perrow", allowed are "pertoken"', x, quant_mode="perrow")
    refused("npu_dynamic_quant", r"group_index selects rows of smooth_scales, which", x, group_index=one.int())
    refused("npu_dynamic_quant", r"smooth_scales has shape \[1\], allowed is \[16\]", x, smooth_scales=one)
    refused("npu_dynamic_quant", r"the last dimension has 12 values of int4", x[..., :12], dst_type=INT4)
    refused("npu_dynamic_quant", r"input is of type Int", x.int())
    refused("npu_anti_quant", r"x is of type Float, allowed are Char, Int", x, one)
    refused("npu_anti_quant", r"dst_dtype is Char, allowed are Half", x.char(), one, dst_dtype=torch.int8)
    refused("npu_convert_weight_to_int4pack", r"weight is of type Float", x)
