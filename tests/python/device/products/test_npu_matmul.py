# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/matmul/matmul.cc and quant_matmul.cc."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import (
    FLOATING,
    check,
    check_close,
    check_gradient,
    check_refused,
    exact,
    integers,
    normal,
    on,
)
from tests.python.device.quantised import packed, saturated, unpacked


def int8(*size: int, seed: int = 0) -> torch.Tensor:
    return integers(-128, 128, *size, dtype=torch.int8, seed=seed)


def quant_matmul(x1, x2, scale, *, offset=None, pertoken_scale=None, bias=None, output_dtype=torch.int8):
    sums = x1.double() @ x2.double()
    if bias is not None and bias.dtype == torch.int32:
        sums, bias = sums + bias, None
    if output_dtype == torch.int32:
        return sums.to(torch.int32)
    y = sums * scale
    if pertoken_scale is not None:
        y = y * pertoken_scale[..., None]
    y = y + (0 if bias is None else bias)
    return saturated(y + (0 if offset is None else offset)) if output_dtype == torch.int8 else y


@pytest.mark.parametrize(
    ("output_dtype", "bias_dtype"),
    [(torch.float16, torch.int32), (torch.bfloat16, torch.float32), (torch.int32, torch.int32)],
)
def test_quant_matmul(output_dtype: torch.dtype, bias_dtype: torch.dtype) -> None:
    scale, pertoken = normal(6, seed=2).abs() / 1000, normal(5, seed=3).abs()
    bias = integers(-99, 99, 6, seed=4).to(bias_dtype)
    args = (int8(5, 32), int8(32, 6, seed=1), scale)
    check(torch_npu.npu_quant_matmul, args, quant_matmul, pertoken_scale=pertoken, bias=bias, output_dtype=output_dtype)


def test_quant_matmul_to_int8() -> None:
    scale = torch.full((6,), 1 / 2048)
    args = (int8(5, 32), int8(32, 6, seed=1), scale)
    check(torch_npu.npu_quant_matmul, args, quant_matmul)
    check(torch_npu.npu_quant_matmul, args, quant_matmul, offset=integers(-9, 9, 6).float())
    check(torch_npu.npu_quant_matmul, (*args[:2], scale[:1].bfloat16()), quant_matmul, output_dtype=torch.int8)


def test_quant_matmul_with_a_column_of_scales() -> None:
    args = (int8(5, 32), int8(32, 6, seed=1), normal(6, seed=2).abs())
    pertoken = normal(5, 1, seed=3).abs()

    def reference(a, b, scale, pertoken_scale, **_):
        return a.double() @ b.double() * scale * pertoken_scale

    check(torch_npu.npu_quant_matmul, args, reference, pertoken_scale=pertoken, output_dtype=torch.bfloat16)


def test_quant_matmul_is_exact() -> None:
    x1, x2 = torch.full((2, 4096), -128, dtype=torch.int8), torch.full((4096, 3), -128, dtype=torch.int8)
    x1[:, 0] = 1
    want = (x1.double() @ x2.double()).int()
    assert want[0, 0] == 4095 * 2**14 - 128
    for weight in (x2, x2.expand(1, 4096, 3)):
        got = torch_npu.npu_quant_matmul(x1.npu(), weight.npu(), torch.ones(1).npu(), output_dtype=torch.int32)
        assert torch.equal(got.cpu().view(2, 3), want)


def test_quant_matmul_of_any_strides() -> None:
    x, w = int8(10, 64), int8(64, 32, seed=1)
    for a in (x[:, ::2], x[::2, :32], x[:1, :32].expand(5, 32), x[:, :1].expand(10, 32)):
        for b in (w[:32, ::2], w[::2], w[:1].expand(32, 32), w[:32, :1].expand(32, 6), w[:32].t().contiguous().t()):
            got = torch_npu.npu_quant_matmul(a, b, torch.ones(1), output_dtype=torch.int32)
            assert torch.equal(got.double(), a.double() @ b.double())


@pytest.mark.parametrize(
    ("x1", "x2"), [((2, 3, 8), (8, 4)), ((2, 1, 3, 8), (5, 8, 4)), ((2, 3, 8), (2, 8, 4)), ((1, 8), (8, 4))]
)
def test_quant_matmul_shapes(x1: tuple[int, ...], x2: tuple[int, ...]) -> None:
    args = (int8(*x1), int8(*x2, seed=1), normal(4, seed=2).abs())
    check(torch_npu.npu_quant_matmul, args, quant_matmul, output_dtype=torch.bfloat16)


def test_quant_matmul_with_a_transposed_weight() -> None:
    x, weight, scale = int8(3, 8), int8(4, 8, seed=1), normal(4, seed=2).abs()

    def call(x, weight, scale, **kwargs):
        return torch_npu.npu_quant_matmul(x, weight.t(), scale, **kwargs)

    def reference(x, weight, scale, **kwargs):
        return quant_matmul(x, weight.t(), scale, **kwargs)

    check(call, (x, weight, scale), reference, output_dtype=torch.float16)


@pytest.mark.parametrize("k", [512, 256, 320])
@pytest.mark.parametrize("words", [True, False])
def test_quant_matmul_int4_with_scales_of_groups(k: int, words: bool) -> None:
    """A group has 256 rows of the weight, and the last one may have fewer. x1, int8 or int4, has a scale for each
    row."""
    limit = 8 if words else 128
    x1, x2 = integers(-limit, limit, 5, k), integers(-8, 8, k, 8, seed=1)
    scale, pertoken = normal(-(-k // 256), 8, seed=2).abs() / 99, normal(5, seed=3).abs() / 9

    def reference(a, b, scale, *, pertoken_scale, bias, **_):
        exact = unpacked(b) * scale.repeat_interleave(256, 0)[:k]
        return (unpacked(a) if words else a).double() @ exact * pertoken_scale.view(5, 1) + bias

    given = {"group_sizes": [0, 0, 256], "bias": normal(8, seed=4), "output_dtype": torch.bfloat16}
    args = (packed(x1) if words else x1.char(), packed(x2), scale)
    for shape in ((5,), (5, 1)):
        compiled = k == 512 and len(shape) == 1
        tokens = pertoken.view(shape)
        check(torch_npu.npu_quant_matmul, args, reference, pertoken_scale=tokens, compiled=compiled, **given)
    batches = args[0].view(1, *args[0].shape).repeat(2, 1, 1)
    got = torch_npu.npu_quant_matmul(batches, *args[1:], pertoken_scale=pertoken.expand(2, 5), **given)
    check_close(got[1], reference(*exact(args), pertoken_scale=pertoken.double(), bias=given["bias"].double()))
    if k == 512:
        message = r"scale has shape \[4, 8\], and 512 rows of the weight are 2 groups of 256"
        args = (*args[:2], normal(4, 8))
        check_refused("npu_quant_matmul", message, *args, group_sizes=[0, 0, 256], output_dtype=torch.bfloat16)


def test_scales_of_blocks_are_those_of_all_batches() -> None:
    x1, x2 = normal(3, 4, 8).to(torch.float8_e4m3fn), normal(8, 8, seed=1).to(torch.float8_e4m3fn)
    scales = normal(2, 2, seed=2), normal(2, 2, seed=3)
    wide = [s.double().repeat_interleave(n, 0).repeat_interleave(4, 1) for s, n in zip(scales, (2, 4), strict=True)]
    given = {"pertoken_scale": scales[0], "group_sizes": [2, 4, 4], "output_dtype": torch.float32}
    got = torch_npu.npu_quant_matmul(x1.npu(), x2.npu(), scales[1].npu(), **on("npu", given))
    check_close(got.cpu(), (x1.double() * wide[0]) @ (x2.double() * wide[1]))


def test_quant_matmul_int4() -> None:
    x1, x2 = integers(-8, 8, 5, 16), integers(-8, 8, 16, 8, seed=1)
    scale = normal(8, seed=2).abs()

    def reference(a, b, scale, **kwargs):
        return quant_matmul(unpacked(a), unpacked(b), scale, **kwargs)

    check(torch_npu.npu_quant_matmul, (packed(x1), packed(x2), scale), reference, output_dtype=torch.float16)
    check(
        lambda a, b, s, **kwargs: torch_npu.npu_quant_matmul(a, b.t(), s, **kwargs),
        (packed(x1), packed(x2.t().contiguous()), scale),
        lambda a, b, s, **kwargs: quant_matmul(unpacked(a), unpacked(b).t(), s, **kwargs),
        output_dtype=torch.bfloat16,
    )


def test_quant_matmul_with_scales_of_groups() -> None:
    x1, x2, scale = int8(5, 16), integers(-8, 8, 16, 8, seed=1), normal(4, 8, seed=2).abs()

    def reference(a, b, scale, pertoken_scale, **_):
        return a.double() @ (unpacked(b) * scale.repeat_interleave(4, 0)) * pertoken_scale[:, None]

    kwargs = {"pertoken_scale": normal(5, seed=3).abs() / 100, "output_dtype": torch.float16}
    check(torch_npu.npu_quant_matmul, (x1, packed(x2), scale), reference, **kwargs)


def encoded(scale, offset=None, nearest=False):
    out = []
    for i, value in enumerate(scale.float().flatten().tolist()):
        bits = int(np.float32(value).view(np.uint32))
        if nearest:
            below = bits & ~0x1FFF
            rest = bits - below
            bits = below + (0x2000 if rest > 0x1000 or (rest == 0x1000 and below & 0x2000) else 0)
        word = (bits & ~0x1FFF) | 1 << 46
        if offset is not None:
            word |= (max(-256, min(255, round(offset.flatten()[i].item()))) & 0x1FF) << 37
        out.append(word)
    return torch.tensor(out).view(scale.shape)


def test_trans_quant_param() -> None:
    scale, offset = normal(9), torch.tensor([-300.0, -256, -1, -0.5, 0, 0.5, 1.5, 255, 300])
    check(torch_npu.npu_trans_quant_param, (scale,), encoded, dynamic=False)
    check(torch_npu.npu_trans_quant_param, (scale, offset), encoded)
    check(torch_npu.npu_trans_quant_param, (scale, None, 1), lambda s, o, _: encoded(s, nearest=True))
    assert torch_npu.npu_trans_quant_param(torch.ones(1)).item() == 0x3F800000 | 1 << 46


def test_quant_matmul_decodes_scales() -> None:
    x1, x2, scale = int8(5, 32), int8(32, 6, seed=1), normal(6, seed=2).abs() / 2048 + 1 / 4096
    truncated = torch.from_numpy((scale.numpy().view(np.uint32) & 0xFFFFE000).view(np.float32))
    offset = integers(-9, 9, 6, seed=3).float()
    words, with_offset = encoded(scale), encoded(scale, offset)
    op, half = torch_npu.npu_quant_matmul, {"output_dtype": torch.float16}
    check(op, (x1, x2, words), lambda a, b, s, **_: quant_matmul(a, b, truncated, **half), **half)
    check(op, (x1, x2, with_offset), lambda a, b, s: quant_matmul(a, b, truncated, offset=offset))


def test_quant_matmul_float8() -> None:
    x1, x2 = normal(5, 64).to(torch.float8_e4m3fn), normal(64, 6, seed=1).to(torch.float8_e5m2)
    scale, pertoken = normal(6, seed=2).abs(), normal(5, seed=3).abs()

    def call(a, b, *args, **kwargs):
        return torch_npu.npu_quant_matmul(a.view(torch.float8_e4m3fn), b.view(torch.float8_e5m2), *args, **kwargs)

    def reference(a, b, *args, **kwargs):
        return quant_matmul(a.view(torch.float8_e4m3fn), b.view(torch.float8_e5m2), *args, **kwargs)

    args = (x1.view(torch.uint8), x2.view(torch.uint8), scale)
    check(call, args, reference, pertoken_scale=pertoken, output_dtype=torch.bfloat16)
    got = torch_npu.npu_quant_matmul(*args, x1_dtype=torch.float8_e4m3fn, x2_dtype=291, output_dtype=torch.bfloat16)
    assert torch.equal(got, call(*args, output_dtype=torch.bfloat16))


def test_quant_matmul_with_scales_of_blocks() -> None:
    x1, x2 = normal(5, 64).to(torch.float8_e4m3fn), normal(64, 40, seed=1).to(torch.float8_e4m3fn)
    pertoken, scale = normal(5, 2, seed=2).abs(), normal(2, 2, seed=3).abs()
    want = (x1.double() * pertoken.repeat_interleave(32, 1)) @ (
        x2.double() * scale.repeat_interleave(32, 0).repeat_interleave(32, 1)[:, :40]
    )
    kwargs = {"pertoken_scale": pertoken.npu(), "output_dtype": torch.float32, "group_sizes": [1, 32, 32]}
    got = torch_npu.npu_quant_matmul(x1.npu(), x2.npu(), scale.npu(), **kwargs)
    torch.testing.assert_close(got.cpu().double(), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("dtype", "groups"), [(torch.float32, None), (torch.float16, 1), (torch.bfloat16, 4)])
def test_weight_quant_batchmatmul(dtype: torch.dtype, groups: int | None) -> None:
    size = (8,) if groups is None else (groups, 8)
    x, weight = normal(5, 16, dtype=dtype), int8(16, 8)
    scale, offset = (normal(*size, dtype=dtype, seed=1) / 50).abs(), integers(-9, 9, *size, seed=2).to(dtype)

    def reference(x, w, scale, offset, bias=None, antiquant_group_size=0):
        if groups == 4:
            scale, offset = scale.repeat_interleave(4, 0), offset.repeat_interleave(4, 0)
        return x @ ((w + offset) * scale) + (0 if bias is None else bias)

    bias = normal(8, dtype=dtype, seed=3)
    kwargs = {"antiquant_group_size": 4} if groups == 4 else {}
    check(torch_npu.npu_weight_quant_batchmatmul, (x, weight, scale, offset), reference, bias=bias, **kwargs)


def test_weight_quant_batchmatmul_int4() -> None:
    x, weight, scale = normal(5, 16), packed(integers(-8, 8, 16, 8)), normal(8, seed=1).abs()
    check(torch_npu.npu_weight_quant_batchmatmul, (x, weight, scale), lambda x, w, s: x @ (unpacked(w) * s))
    weight = packed(integers(-8, 8, 8, 16))
    check(lambda x, w, s: torch_npu.npu_weight_quant_batchmatmul(x, w.t(), s), (x, weight, scale),
          lambda x, w, s: x @ (unpacked(w).t() * s))  # fmt: skip


def test_weight_quant_batchmatmul_float8() -> None:
    x, weight, scale = normal(5, 16), normal(16, 8, seed=1).to(torch.float8_e4m3fn), normal(8, seed=2).abs()
    args = (x, weight.view(torch.uint8), scale)
    check(torch_npu.npu_weight_quant_batchmatmul, args, lambda x, w, s, weight_dtype: x @ (weight.double() * s),
          weight_dtype=torch.float8_e4m3fn)  # fmt: skip


def test_weight_quant_batchmatmul_hifloat8() -> None:
    weight = torch_npu.HiFloat8Tensor.to_hifloat8(normal(16, 8, seed=1))
    args = (normal(5, 16), weight._data, normal(8, seed=2).abs())

    def reference(x, w, s, weight_dtype):
        return x @ (weight.from_hifloat8(torch.float64) * s)

    check(torch_npu.npu_weight_quant_batchmatmul, args, reference, weight_dtype=torch_npu.hifloat8)


@pytest.mark.parametrize("bias_dtype", [torch.int32, torch.float32])
def test_quant_matmul_with_a_bias_of_more_dimensions(bias_dtype: torch.dtype) -> None:
    args, bias = (int8(5, 8), int8(8, 6, seed=1), normal(6, seed=2).abs() / 99), integers(-99, 99, 1, 1, 6, seed=3)

    def reference(a, b, scale, *, bias, **_):
        return quant_matmul(a, b, scale, bias=bias.view(6), output_dtype=torch.bfloat16)

    given = {"bias": bias.to(bias_dtype), "output_dtype": torch.bfloat16}
    check(torch_npu.npu_quant_matmul, args, reference, compiled=bias_dtype == torch.int32, **given)


def test_quant_matmul_scales_its_result() -> None:
    args = (int8(5, 16), int8(16, 8, seed=1), normal(8, seed=2).abs())
    kwargs = {"y_scale": encoded(torch.full((8,), 0.25)), "output_dtype": torch.float16}

    def reference(a, b, scale, y_scale, **_):
        return a.double() @ b.double() * scale / 4

    check(torch_npu.npu_quant_matmul, args, reference, **kwargs)


def test_weight_quant_batchmatmul_to_int8() -> None:
    args = (normal(5, 16), int8(16, 8), torch.full((1,), 0.01))
    kwargs = {"quant_scale": normal(8, seed=1).abs() * 30, "quant_offset": torch.ones(8)}

    def reference(x, w, s, quant_scale, quant_offset):
        return saturated(x @ (w * s) * quant_scale + quant_offset)

    check(torch_npu.npu_weight_quant_batchmatmul, args, reference, **kwargs)


@pytest.mark.parametrize("dtype", FLOATING)
def test_transpose_batchmatmul(dtype: torch.dtype) -> None:
    x, weight = normal(4, 5, 8, dtype=dtype), normal(4, 8, 6, dtype=dtype, seed=1)
    op = torch_npu.npu_transpose_batchmatmul
    check(op, (x, weight), lambda x, w: (x @ w).transpose(0, 1))
    check(
        op,
        (x.transpose(0, 1).contiguous(), weight.transpose(1, 2).contiguous()),
        lambda x, w, **_: (x.transpose(0, 1) @ w.transpose(1, 2)).transpose(0, 1),
        perm_x1=[1, 0, 2],
        perm_x2=[0, 2, 1],
        perm_y=[1, 0, 2],
    )


def test_transpose_batchmatmul_ends() -> None:
    x, weight = normal(4, 5, 8), normal(4, 8, 6, seed=1)
    op = torch_npu.npu_transpose_batchmatmul
    check(op, (x, weight), lambda x, w, **_: torch.stack(
        [(x @ w)[i : i + 2].transpose(0, 1).reshape(5, 12) for i in (0, 2)]), batch_split_factor=2)  # fmt: skip
    check(op, (x, weight), lambda x, w, bias: (x @ w + bias).transpose(0, 1), bias=normal(6, seed=2))
    scale = torch.full((24,), 16.0)
    check(op, (x, weight), lambda x, w, scale: saturated((x @ w).transpose(0, 1).reshape(5, 1, 24) * 16), scale=scale)
    check(op, (x, weight), lambda x, w, scale: saturated((x @ w).transpose(0, 1).reshape(5, 1, 24) * 16),
          scale=encoded(scale))  # fmt: skip
    check_gradient(op, (x, weight), lambda x, w: (x @ w).transpose(0, 1))


def test_linear_and_its_gradients_are_those_of_torch() -> None:
    args = (normal(2, 5, 8), normal(6, 8, seed=1), normal(6, seed=2))
    check(torch_npu.npu_linear, args, torch.nn.functional.linear)
    check(torch_npu.npu_linear, args[:2], torch.nn.functional.linear)
    check_gradient(torch_npu.npu_linear, args, torch.nn.functional.linear)
    grad = normal(2, 5, 6, seed=3)
    check(torch_npu.npu_linear_backward, (grad, *args[:2]), lambda g, x, w: (g @ w, g.view(-1, 6).t() @ x.view(-1, 8)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_every_cast_gives_the_type_asked_for(dtype: torch.dtype) -> None:
    x = normal(3, 4) * 9
    for op in (torch_npu.npu_dtype_cast, torch_npu._npu_dtype_cast, torch_npu.npu_dtype_cast_backward,
               torch_npu._npu_dtype_cast_backward):  # fmt: skip
        check(op, (x, dtype), lambda x, dtype: x.float().to(dtype))


def test_casts_of_bytes_and_codes() -> None:
    x = normal(3, 4).to(torch.float8_e4m3fn)
    got = torch_npu.npu_dtype_cast(x.view(torch.uint8).npu(), 256 + 27, 292)
    assert torch.equal(got.cpu(), x.bfloat16())
    with pytest.raises(RuntimeError, match=r"npu_dtype_cast: dtype is 290, which is neither a torch.dtype nor"):
        torch_npu.npu_dtype_cast(normal(3).npu(), 290)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_cast_into_an_argument(device: str) -> None:
    x, src = torch.zeros(3, 4, dtype=torch.bfloat16, device=device), normal(3, 4).to(device)
    out = torch_npu.npu_dtype_cast_(x, src)
    assert out.data_ptr() == x.data_ptr() and torch.equal(x, src.bfloat16())


def test_casts_have_gradients() -> None:
    for op in (torch_npu._npu_dtype_cast, torch_npu.npu_dtype_cast):
        check_gradient(op, (normal(3, 4), torch.float64), lambda x, dtype: x.clone())
    x = normal(3, 4).npu().requires_grad_()
    for dtype in (torch.bfloat16, 256 + 1, torch.float32, 292):
        (grad,) = torch.autograd.grad(torch_npu.npu_dtype_cast(x * 2, dtype).float().sum(), x)
        assert grad.dtype == torch.float32 and torch.equal(grad.cpu(), torch.full((3, 4), 2.0))
    cast = torch.compile(lambda x: torch_npu.npu_dtype_cast(x * 2, torch.float16), backend="npugraph_ex")
    assert torch.equal(torch.autograd.grad(cast(x).float().sum(), x)[0].cpu(), torch.full((3, 4), 2.0))
    assert not torch_npu.npu_dtype_cast(x, torch.int32).requires_grad


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, one = int8(4, 16), torch.ones(1)
    refused, product = check_refused, "npu_quant_matmul"
    refused(product, r"x2 has shape \[4, 16\], and 16 is the size to sum over", x, x, one)
    refused(product, r"x1 is of type Double, allowed are Char", x.double(), x.t(), one)
    refused(product, r"output_dtype is Long, allowed are int8, int32", x, x.t(), one, output_dtype=torch.int64)
    refused(product, r"scale is of type Int, allowed are Float", x, x.t(), one.int())
    refused(product, r"group_sizes is \[1\], allowed are three sizes", x, x.t(), one, group_sizes=[1])
    refused(product, r"a scale has 3 groups, which do not divide the 16 rows", x, x.t(), torch.ones(3, 4))
    x8 = x.to(torch.float8_e4m3fn)
    refused(product, r"results of type Int are the sums of int8", x8, x8.t(), one, output_dtype=torch.int32)
    refused("npu_trans_quant_param", r"scale is of type Char", x)
    refused("npu_trans_quant_param", r"round_mode is 2, allowed are 0", one, None, 2)
    refused("npu_weight_quant_batchmatmul", r"x is of type Char", x, x.t(), one)
    message = r"antiquant_scale has shape \[4\], allowed is \[4, n\] for groups of 4"
    args = (x.float(), x.t(), torch.ones(4))
    refused("npu_weight_quant_batchmatmul", message, *args, antiquant_group_size=4)
    product, args = "npu_transpose_batchmatmul", (normal(2, 3, 4), normal(2, 4, 3))
    refused(product, r"input has 2 dimensions, allowed are 3 to 3", x.float(), x.float())
    refused(product, r"perm_y is \[0, 1, 2\], allowed is \[1, 0, 2\]", *args, perm_y=[0, 1, 2])
    refused(product, r"perm_x1 is \[2, 1, 0\], allowed are \[0, 1, 2\] and \[1, 0, 2\]", *args, perm_x1=[2, 1, 0])
    refused(product, r"batch_split_factor is 3, which does not divide 2 batches", *args, batch_split_factor=3)
