# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/norms/norms.cc, layer_norms.cc and quant_norms.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_close, check_gradient, integers, normal


def rms_norm(x, gamma, epsilon=1e-6):
    dims = list(range(-gamma.dim(), 0))
    rstd = 1 / torch.sqrt((x * x).mean(dims, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd


def add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    return *rms_norm(x1 + x2, gamma, epsilon), x1 + x2


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("gamma_size", [(16,), (4, 16)])
def test_rms_norm(dtype: torch.dtype, gamma_size: tuple[int, ...]) -> None:
    args = (normal(3, 4, 16, dtype=dtype), normal(*gamma_size, dtype=dtype, seed=1))
    check(torch_npu.npu_rms_norm, args, rms_norm)
    check(torch_npu.npu_rms_norm, args, rms_norm, epsilon=0.1)


def test_rms_norm_with_a_wide_gamma() -> None:
    check(torch_npu.npu_rms_norm, (normal(3, 16, dtype=torch.bfloat16), normal(16, seed=1)), rms_norm)


def test_gradients_are_those_of_the_reference() -> None:
    check_gradient(torch_npu.npu_rms_norm, (normal(3, 16), normal(16, seed=1)), rms_norm)
    check_gradient(torch_npu.npu_add_rms_norm, (normal(3, 16), normal(3, 16, seed=1), normal(16, seed=2)), add_rms_norm)


@pytest.mark.parametrize("dtype", FLOATING)
def test_add_rms_norm(dtype: torch.dtype) -> None:
    args = (normal(3, 16, dtype=dtype), normal(3, 16, dtype=dtype, seed=1), normal(16, dtype=dtype, seed=2))
    # The sum is rounded before it is normalised.
    check(torch_npu.npu_add_rms_norm, args, lambda a, b, g: add_rms_norm((a + b).to(dtype).double(), 0 * b, g))


def gradients(function, *args):
    """Returns the gradients of the sum of all results, weighted by ``args[0]``, for the other arguments."""
    weights, args = args[0], [x.clone().requires_grad_() for x in args[1:]]
    results = function(*args)
    results = results if isinstance(results, tuple) else (results,)
    total = sum((y * w).sum() for y, w in zip(results, weights, strict=False) if w is not None)
    return torch.autograd.grad(total, args)


def test_gemma_rms_norm() -> None:
    args = (normal(3, 16, dtype=torch.bfloat16), normal(16, dtype=torch.bfloat16, seed=1))
    check(torch_npu.npu_gemma_rms_norm, args, lambda x, g: rms_norm(x, 1 + g))


def test_rms_norm_backward() -> None:
    x, gamma = normal(3, 4, 16), normal(16, seed=1)
    args = (normal(3, 4, 16, seed=2), x, gamma, rms_norm(x, gamma)[1])
    check(torch_npu.npu_rms_norm_backward, args, lambda dy, x, g, _: gradients(rms_norm, [dy], x, g))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_variants_of_add_rms_norm(dtype: torch.dtype) -> None:
    def in_place(a, b, g):
        y, rstd, total = add_rms_norm(a, b, g)
        a.copy_(y)
        b.copy_(total)
        return rstd

    def functional(a, b, g):
        y, rstd, total = add_rms_norm(a, b, g)
        return rstd, y, total

    # Sixteenths, so that sums are exact.
    args = tuple(
        (normal(*n, seed=i).clamp(-3, 3) * 16).round().div(16).to(dtype) for i, n in enumerate([(3, 16)] * 2 + [(16,)])
    )
    check(torch_npu.npu_add_rms_norm_v2_functional, args, functional)
    check(torch_npu.npu_add_rms_norm_v2, args, in_place, whole=True)


def test_add_rms_norm_cast() -> None:
    def reference(a, b, g):
        y, rstd, total = add_rms_norm(a, b, g)
        return y, y, rstd, total

    check(torch_npu.npu_add_rms_norm_cast, (normal(3, 16), normal(3, 16, seed=1), normal(16, seed=2)), reference)


def test_add_rms_norm_cast_is_a_cast_of_the_rounded_result() -> None:
    args = [normal(3, 16, dtype=torch.bfloat16, seed=i) for i in (0, 1)] + [normal(16, dtype=torch.bfloat16)]
    wide, y, _, _ = torch_npu.npu_add_rms_norm_cast(*args)
    assert wide.dtype == torch.float32
    assert torch.equal(wide, y.float())


def quantise(x, low=-128, high=127):
    return x.round().clamp(low, high)


def quantise_rows(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return quantise(x / torch.where(scale == 0, 1, scale)), scale.squeeze(-1)


def add_rms_norm_quant(x1, x2, g, s1, z1=None, beta=None, s2=None, z2=None, *, div_mode=True, **_):
    t = add_rms_norm(x1, x2, g)[0] + (0 if beta is None else beta)
    t1, t2 = (t / s1, s2 and t / s2) if div_mode else (t * s1, s2 and t * s2)
    y2 = torch.zeros_like(t) if s2 is None else quantise(t2 + z2)
    return quantise(t1 + (0 if z1 is None else z1)), y2, x1 + x2


@pytest.mark.parametrize("div_mode", [True, False])
def test_add_rms_norm_quant(div_mode: bool) -> None:
    x1, x2, gamma = normal(3, 16), normal(3, 16, seed=1), normal(16, seed=2)
    scale = normal(16, seed=3).abs() / 10 + 0.01 if div_mode else normal(16, seed=3).abs() * 20
    check(torch_npu.npu_add_rms_norm_quant, (x1, x2, gamma, scale, None), add_rms_norm_quant, div_mode=div_mode)
    points = integers(-5, 5, 16, dtype=torch.int32)
    check(
        torch_npu.npu_add_rms_norm_quant,
        (x1, x2, gamma, scale, points, normal(16, seed=4), torch.tensor([0.5]), torch.tensor([3], dtype=torch.int32)),
        add_rms_norm_quant,
        div_mode=div_mode,
        axis=-1,
    )


def test_quantised_results_saturate_and_round_half_to_even() -> None:
    ones = torch.ones(1, 8)
    scale = torch.tensor([0.5, 1.5, 2.5, -2.5, 127.6, 1e6, -128.4, -1e6])
    op = torch_npu.npu_add_rms_norm_quant
    y, _, _ = op(ones, 0 * ones, torch.ones(8), scale, None, epsilon=0.0, div_mode=False)
    assert y.tolist() == [[0, 2, 2, -2, 127, 127, -128, -128]]
    point = torch.ones(8, dtype=torch.int32)  # added before the rounding
    y, _, _ = op(ones, 0 * ones, torch.ones(8), scale, point, epsilon=0.0, div_mode=False)
    assert y.tolist() == [[2, 2, 4, -2, 127, 127, -127, -128]]


def add_rms_norm_dynamic_quant(x1, x2, g, *, smooth_scale1=None, smooth_scale2=None, beta=None, output_mask=None):
    t = add_rms_norm(x1, x2, g)[0] + (0 if beta is None else beta)
    mask = output_mask or [True, smooth_scale1 is not None and smooth_scale2 is not None]
    none = torch.empty(0)
    smooth = [1 if s is None else s for s in (smooth_scale1, smooth_scale2)]
    (y1, s1), (y2, s2) = (
        quantise_rows(t * s) if wanted else (none, none) for s, wanted in zip(smooth, mask, strict=True)
    )
    return y1, y2, x1 + x2, s1, s2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_add_rms_norm_dynamic_quant(dtype: torch.dtype) -> None:
    x1, gamma = normal(2, 3, 16, dtype=dtype), normal(16, dtype=dtype, seed=2)
    args = (x1, 0 * x1, gamma)
    op, smooth = torch_npu.npu_add_rms_norm_dynamic_quant, normal(16, dtype=dtype, seed=3)
    check(op, args, add_rms_norm_dynamic_quant)
    check(op, args, add_rms_norm_dynamic_quant, smooth_scale1=smooth, output_mask=[True, False])
    check(op, args, add_rms_norm_dynamic_quant, smooth_scale1=smooth, smooth_scale2=smooth.abs(), beta=smooth)
    check(op, args, add_rms_norm_dynamic_quant, smooth_scale1=smooth, smooth_scale2=smooth, output_mask=[False, True])


def test_a_row_of_zeros_has_the_scale_zero() -> None:
    zeros = torch.zeros(2, 4)
    y, _, _, scale, _ = torch_npu.npu_add_rms_norm_dynamic_quant(zeros, zeros, torch.ones(4))
    assert y.tolist() == [[0] * 4] * 2
    assert scale.tolist() == [0, 0]


def test_add_rms_norm_dynamic_quant_in_float8() -> None:
    x, zeros = normal(3, 16), torch.zeros(3, 16)
    y, _, _, scale, _ = torch_npu.npu_add_rms_norm_dynamic_quant(x, zeros, torch.ones(16), y_dtype=torch.float8_e4m3fn)
    assert y.dtype == torch.float8_e4m3fn
    want = torch_npu.npu_rms_norm(x, torch.ones(16))[0]
    torch.testing.assert_close(y.float() * scale[:, None], want, rtol=0.07, atol=1e-2)


def unpacked(x):
    """Returns eight values of four bits from each element, the first from the lowest bits."""
    nibbles = torch.stack([(x.long() >> shift) & 15 for shift in range(0, 32, 4)], -1).flatten(-2)
    return torch.where(nibbles > 7, nibbles - 16, nibbles)


@pytest.mark.parametrize("dtype", [torch.quint4x2, 285])
def test_quantised_in_four_bits(dtype: torch.dtype | int) -> None:
    x, gamma = normal(3, 16), torch.ones(16)
    t = rms_norm(x.double(), gamma)[0]
    y, none, _, scale, _ = torch_npu.npu_add_rms_norm_dynamic_quant(x, 0 * x, gamma, y_dtype=dtype)
    assert y.dtype == none.dtype == torch.int32
    torch.testing.assert_close(scale.double(), t.abs().amax(-1) / 7, rtol=1e-5, atol=1e-5)
    check_close(unpacked(y), quantise(t / scale.double()[:, None], -8, 7))
    y, _, _ = torch_npu.npu_add_rms_norm_quant(x, 0 * x, gamma, torch.tensor([0.15]), None, dst_type=dtype)
    check_close(unpacked(y), quantise(t / 0.15, -8, 7))


FLOAT4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def check_blocks(values, scale, want, top: int, error: float) -> None:
    """Checks blocks of 32 values. Their scale is the power of two of the largest value, divided by that of the dtype's
    largest value."""
    largest = want.unflatten(-1, (-1, 32)).abs().amax(-1)
    powers = torch.exp2(torch.floor(torch.log2(largest)) - top)
    assert torch.equal(scale.view(torch.float8_e8m0fnu).float().flatten(-2)[:, : powers.shape[-1]], powers)
    if values.dtype == torch.uint8:
        values = FLOAT4[torch.stack([values & 15, values >> 4], -1).flatten(-2).long()]
    powers = powers.repeat_interleave(32, -1)
    assert ((values.float() * powers - want).abs() <= error * largest.repeat_interleave(32, -1)).all()


@pytest.mark.parametrize(
    ("dtype", "top", "error"), [(torch.float8_e4m3fn, 8, 1 / 8), (torch.float8_e5m2, 15, 1 / 8), (296, 2, 1 / 4)]
)
def test_norms_in_blocks(dtype: torch.dtype | int, top: int, error: float) -> None:
    x1, x2, gamma, beta = normal(3, 96), normal(3, 96, seed=1), normal(96, seed=2), normal(96, seed=3)
    values, scale, rstd = torch_npu.npu_rms_norm_dynamic_mx_quant(x1, gamma, dst_type=dtype)
    y, want = torch_npu.npu_rms_norm(x1, gamma)
    check_blocks(values, scale, y, top, error)
    assert torch.equal(rstd, want)
    op = torch_npu.npu_add_rms_norm_dynamic_mx_quant
    values, total, scale, rstd = op(x1, x2, gamma, beta=beta, dst_type=dtype)
    y, want = torch_npu.npu_rms_norm(x1 + x2, gamma)
    check_blocks(values, scale, y + beta, top, error)
    assert torch.equal(total, x1 + x2)
    assert torch.equal(rstd, want)


def test_rms_norm_quant() -> None:
    x, gamma, beta = normal(3, 16), normal(16, seed=1), normal(16, seed=2)
    scale, offset = torch.tensor([30.0]), torch.tensor([2.0])

    def reference(x, g, beta, scale, offset):
        return quantise((rms_norm(x, g)[0] + beta) * scale + offset)

    check(torch_npu.npu_rms_norm_quant, (x, gamma, beta, scale, offset), reference)
    check(
        torch_npu.npu_rms_norm_quant_v2,
        (x, gamma, 1 / scale),
        lambda x, g, s, offset, beta: (reference(x, g, beta, 1 / s, offset), rms_norm(x, g)[1]),
        offset=offset,
        beta=beta,
    )
    of_rows = [x[None] for x in (gamma, beta)]
    assert torch.equal(
        torch_npu.npu_rms_norm_quant(x, *of_rows, scale, offset),
        torch_npu.npu_rms_norm_quant(x, gamma, beta, scale, offset),
    )
    check(
        torch_npu.npu_rms_norm_quant_v2,
        (x, gamma[None], 1 / scale),
        lambda x, g, s, offset, beta: (reference(x, g[0], beta[0], 1 / s, offset), rms_norm(x, g[0])[1]),
        offset=offset,
        beta=beta[None],
        compiled=False,
    )


def test_rms_norm_backward_quant() -> None:
    x, gamma = normal(3, 16), normal(16, seed=1)
    dy, scale = normal(3, 16, seed=2), torch.tensor([0.02])

    def reference(dy, x, rstd, g, scale, offset_x):
        dx, dgamma = gradients(rms_norm, [dy], x, g)
        return quantise(dx / scale + offset_x), dgamma

    args = (dy, x, rms_norm(x, gamma)[1], gamma, scale)
    check(torch_npu._npu_rms_norm_backward_quant, args, reference, offset_x=torch.tensor([3], dtype=torch.int32))


def layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(x.var(-1, keepdim=True, correction=0) + epsilon)
    return (x - mean) * rstd * gamma + beta, mean, rstd


def test_add_layer_norm() -> None:
    x1, x2, gamma, beta = normal(3, 16), normal(3, 16, seed=1), normal(16, seed=2), normal(16, seed=3)

    def reference(x1, x2, g, b, epsilon=1e-5, additional_output=False):
        return *layer_norm(x1 + x2, g, b, epsilon), x1 + x2 if additional_output else x1.new_empty(0)

    op = torch_npu.npu_add_layer_norm
    check(op, (x1, x2, gamma, beta), reference)
    check(op, (x1, x2, gamma, beta, 0.1, True), reference)
    check_gradient(op, (x1, x2, gamma, beta, 1e-5, True), reference)
    _, mean, rstd = layer_norm(x1 + x2, gamma, beta, 1e-5)

    def backward(dy, x1, x2, rstd, mean, g, dsum):
        weights = [dy, None, None, dsum]
        return gradients(lambda a, b, g, c: reference(a, b, g, c, 1e-5, True), weights, x1, x2, g, 0 * g)

    op = torch_npu.npu_add_layer_norm_backward
    check(op, (normal(3, 16, seed=4), x1, x2, rstd, mean, gamma, normal(3, 16, seed=5)), backward)
    check(op, (normal(3, 16, seed=4), x1, x2, rstd, mean, gamma, None), backward)


def test_deep_norm() -> None:
    x, gx, beta, gamma = normal(3, 16), normal(3, 16, seed=1), normal(16, seed=2), normal(16, seed=3)

    def reference(x, gx, b, g, alpha=0.3, epsilon=1e-6):
        y, mean, rstd = layer_norm(alpha * x + gx, g, b, epsilon)
        return mean, rstd, y

    check(torch_npu.npu_deep_norm, (x, gx, beta, gamma), reference)
    mean, rstd, _ = reference(x, gx, beta, gamma)

    def backward(dy, x, gx, g, mean, rstd):
        return gradients(reference, [None, None, dy], x, gx, 0 * g, g)

    check(torch_npu.npu_deep_norm_backward, (normal(3, 16, seed=4), x, gx, gamma, mean, rstd), backward)


def test_layer_norm() -> None:
    x, gamma, beta = normal(3, 4, 16), normal(4, 16, seed=1), normal(4, 16, seed=2)
    native = torch.nn.functional.layer_norm
    check(torch_npu.npu_layer_norm_eval, (x, [4, 16], gamma, beta, 0.1), native)
    check(torch_npu.npu_layer_norm_eval, (x, [16]), native)
    _, mean, rstd = torch.native_layer_norm(x, [4, 16], gamma, beta, 1e-5)

    def backward(dy, x, shape, mean, rstd, g, b):
        return gradients(lambda x, g, b: native(x, shape, g, b), [dy], x, g, b)

    check(torch_npu.npu_layernorm_grad, (normal(3, 4, 16, seed=3), x, [4, 16], mean, rstd, gamma, beta), backward)


def group_norm(x, groups, weight, bias, eps):
    parts = x.reshape(x.shape[0], groups, -1)
    mean, rstd = parts.mean(-1), 1 / torch.sqrt(parts.var(-1, correction=0) + eps)
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps), mean, rstd


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_group_norm_silu(dtype: torch.dtype) -> None:
    x, weight, bias = normal(2, 6, 3, 5, dtype=dtype), normal(6, dtype=dtype, seed=1), normal(6, dtype=dtype, seed=2)

    def reference(x, weight, bias, groups, eps=1e-5):
        y, mean, rstd = group_norm(x, groups, weight, bias, eps)
        return y * torch.sigmoid(y), mean, rstd

    check(torch_npu.npu_group_norm_silu, (x, weight, bias, 3), reference)
    check(torch_npu.npu_group_norm_silu, (x, None, None, 2, 0.1), reference)


def test_group_norm_swish() -> None:
    x, weight, bias = normal(2, 6, 5), normal(6, seed=1), normal(6, seed=2)

    def reference(x, groups, weight, bias, eps=1e-5, swish_scale=1.0):
        y, mean, rstd = group_norm(x, groups, weight, bias, eps)
        return y * torch.sigmoid(swish_scale * y), mean, rstd

    check(torch_npu.npu_group_norm_swish, (x, 3, weight, bias), reference, swish_scale=1.5)
    check_gradient(torch_npu.npu_group_norm_swish, (x, 3, weight, bias), reference)
    _, mean, rstd = reference(x, 3, weight, bias)

    def backward(dy, x, groups, weight, bias, mean, rstd, mask, swish_scale):
        out = gradients(lambda x, w, b: reference(x, groups, w, b, 1e-5, swish_scale), [dy], x, weight, bias)
        return tuple(grad if wanted else grad.new_empty(0) for grad, wanted in zip(out, mask, strict=True))

    for mask in ([True, True, True], [True, False, True]):
        args = (normal(2, 6, 5, seed=3), x, 3, weight, bias, mean, rstd, mask)
        check(torch_npu.npu_group_norm_swish_grad, args, backward, swish_scale=1.5)


def test_normalize_batch() -> None:
    x, lengths = normal(2, 3, 7), torch.tensor([4, 7], dtype=torch.int32)

    def reference(x, lengths, normalize_type=0):
        rows = []
        for row, length in zip(x, lengths.tolist(), strict=True):
            known = row[:, :length] if normalize_type == 0 else row[:, :length].reshape(1, -1)
            rows.append((row - known.mean(1, keepdim=True)) / (known.std(1, keepdim=True) + 1e-5))
        return torch.stack(rows)

    for kind in (0, 1):
        check(torch_npu.npu_normalize_batch, (x, lengths, kind), reference)


def test_batch_norm_over_processes() -> None:
    x = normal(8, 4, 5, dtype=torch.float16)
    check(torch_npu.batch_norm_reduce, (x, 1e-5), lambda x, _: (x.sum((0, 2)), (x * x).sum((0, 2))))
    parts = [part.float() for part in x.split([2, 6])]
    sums, squares = torch.stack([p.sum((0, 2)) for p in parts]), torch.stack([(p * p).sum((0, 2)) for p in parts])

    def reference(x, sums, squares, running_mean, running_var, momentum, eps, counts):
        x = x.transpose(0, 1).flatten(1)
        running_mean.lerp_(x.mean(1), momentum)
        running_var.lerp_(x.var(1), momentum)
        return x.mean(1), 1 / torch.sqrt(x.var(1, correction=0) + eps)

    args = (x, sums, squares, normal(4), normal(4, seed=1).abs(), 0.1, 1e-5, torch.tensor([10.0, 30.0]))
    check(torch_npu.batch_norm_gather_stats_update, args, reference)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((normal(3, 16), normal(8)), r"npu_rms_norm: gamma has shape \[8\], .* of x, \[3, 16\]"),
        ((normal(3, 16).int(), normal(16)), r"npu_rms_norm: x is of type Int, allowed are Float, Half, BFloat16"),
        ((normal(3, 16), normal(16).long()), r"npu_rms_norm: gamma is of type Long"),
    ],
)
def test_wrong_sizes_and_types_are_refused_on_both_devices(args: tuple[torch.Tensor, ...], message: str) -> None:
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match=message):
            torch_npu.npu_rms_norm(*(x.to(device) for x in args))


X, GAMMA = normal(3, 16), normal(16)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        ("npu_add_rms_norm", (X, X[:2], GAMMA), {}, r"npu_add_rms_norm: x2 has shape \[2, 16\], and not that of x1"),
        ("npu_add_rms_norm_quant", (X, X, GAMMA, GAMMA, None), {"axis": 0}, "axis is 0, allowed is -1"),
        (
            "npu_add_rms_norm_quant",
            (X, X, GAMMA, GAMMA, None),
            {"dst_type": torch.int64},
            "npu_add_rms_norm_quant: dst_type is Long, allowed are int8, uint8, int32, int4, float8_e4m3fn, ",
        ),
        (
            "_npu_rms_norm_backward_quant",
            (X, X, X[:, :1], GAMMA, GAMMA),
            {"quant_mode": "dynamic"},
            "allowed is 'static'",
        ),
        (
            "npu_add_rms_norm_dynamic_quant",
            (X[:, :12], X[:, :12], GAMMA[:12]),
            {"y_dtype": torch.quint4x2},
            "the last dimension has 12 values of int4, which do not fill words of 8",
        ),
        (
            "npu_rms_norm_dynamic_mx_quant",
            (X, GAMMA),
            {"round_mode": "floor"},
            'npu_rms_norm_dynamic_mx_quant: round_mode is "floor", allowed is "rint"',
        ),
        ("npu_group_norm_silu", (X, None, None, 5), {}, "npu_group_norm_silu: input has 16 channels, .* groups of 5"),
        ("npu_normalize_batch", (X[None], GAMMA[:1].int(), 2), {}, "normalize_type is 2, allowed are 0"),
    ],
)
def test_errors_of_others(name: str, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(torch_npu, name)(*args, **kwargs)
