# SPDX-License-Identifier: Apache-2.0
"""Operators of ``_C_ascend`` in every layer: normalisations, rotary embeddings, adapters and streams."""

from __future__ import annotations

import npugraph_vllm.ascend_c  # noqa: F401
import pytest
import torch

from tests.python.device.npu_operators import FLOATING, check, integers, normal

ops = torch.ops._C_ascend
DECODE, PREFILL = 3, 37


def rms(x, gamma, epsilon=1e-6):
    rstd = (x.pow(2).mean(-1, keepdim=True) + epsilon).rsqrt()
    return x * rstd * gamma, rstd


def add_rms_norm_bias(dtype):
    """The norm is that of the sum in its dtype."""

    def reference(x1, x2, gamma, beta=None, epsilon=1e-6):
        x = (x1 + x2).to(dtype).double()
        y, rstd = rms(x, gamma, epsilon)
        return (y if beta is None else y + beta), rstd, x

    return reference


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("rows", [DECODE, PREFILL])
def test_add_rms_norm_bias(rows: int, dtype: torch.dtype) -> None:
    x, residual, gamma, beta = (
        normal(*size, dtype=dtype, seed=seed) / 2 for seed, size in enumerate([(rows, 64), (rows, 64), (64,), (64,)])
    )
    compiled = dtype == torch.bfloat16
    op, reference = ops.npu_add_rms_norm_bias, add_rms_norm_bias(dtype)
    check(op, (x, residual, gamma, beta, 1e-5), reference, compiled=compiled)
    check(op, (x, residual, gamma), reference, compiled=compiled)


@pytest.mark.parametrize("rows", [DECODE, PREFILL])
def test_norms_of_one(rows: int) -> None:
    x, gamma = normal(rows, 64, dtype=torch.bfloat16), normal(64, dtype=torch.bfloat16, seed=1)
    check(ops.npu_gemma_rms_norm, (x, gamma, 1e-5), lambda x, gamma, e: rms(x, 1 + gamma, e))
    y, wide = ops.npu_rms_norm_cast(x, gamma, 1e-5)
    assert y.dtype == torch.bfloat16 and wide.dtype == torch.float32 and torch.equal(y.float(), wide)
    check(ops.npu_rms_norm_cast, (x.float(), gamma.float()), lambda x, gamma: (rms(x, gamma)[0],) * 2)


def rms_norm_dynamic_quant(x, gamma, smooth_scale=None, beta=None, epsilon=1e-6):
    y = rms(x, gamma, epsilon)[0]
    y = y if beta is None else y + beta
    y = y if smooth_scale is None else y * smooth_scale
    scale = y.abs().amax(-1) / 127
    return torch.round(y / scale.unsqueeze(-1)).to(torch.int8), scale


@pytest.mark.parametrize("rows", [DECODE, PREFILL])
def test_rms_norm_dynamic_quant(rows: int) -> None:
    x, gamma, smooth, beta = normal(rows, 64), normal(64, seed=1), normal(64, seed=2).abs(), normal(64, seed=3)
    check(ops.npu_rms_norm_dynamic_quant, (x, gamma), rms_norm_dynamic_quant)
    check(ops.npu_rms_norm_dynamic_quant, (x, gamma, smooth, beta, 1e-5), rms_norm_dynamic_quant, compiled=False)


def turned(x, cos, sin, half):
    """Rotates places i and i + n / 2, or 2i and 2i + 1, by the angles of ``cos`` and ``sin``, one of each pair."""
    a, b = x.chunk(2, -1) if half else (x[..., ::2], x[..., 1::2])
    parts = a * cos - b * sin, b * cos + a * sin
    return torch.cat(parts, -1) if half else torch.stack(parts, -1).flatten(-2)


def rotary_embedding(positions, query, key, head_size, cache, is_neox):
    cos, sin = (part.unsqueeze(1) for part in cache[positions].chunk(2, -1))
    width = cache.shape[-1]
    for x in (query, key):
        heads = x.view(len(positions), -1, head_size)
        heads[..., :width] = turned(heads[..., :width], cos, sin, is_neox)
    return tuple(x.view(len(positions), -1, head_size).clone() for x in (query, key))


@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize("rows", [DECODE, PREFILL])
def test_rotary_embedding(rows: int, is_neox: bool) -> None:
    angles = normal(64, 16, seed=3)
    cache = torch.cat((angles.cos(), angles.sin()), -1)
    positions, query, key = integers(0, 64, rows), normal(rows, 4 * 32, seed=1), normal(rows, 2 * 32, seed=2)
    check(ops.rotary_embedding, (positions, query, key, 32, cache, is_neox), rotary_embedding, dynamic=False)
    if is_neox:
        partly = cache[:, 8:24].contiguous()
        check(ops.rotary_embedding, (positions, query, key, 32, partly, True), rotary_embedding, dynamic=False)


def partial_rotary(x, r1, r2, mode, places, negate_sin=False):
    part = x[..., places[0] : places[1]]
    half = mode == "half"
    a, b = part.chunk(2, -1) if half else (part[..., ::2], part[..., 1::2])
    other = torch.cat((-b, a), -1) if half else torch.stack((-b, a), -1).flatten(-2)
    part.copy_(part * r1 + other * (-r2 if negate_sin else r2))


@pytest.mark.parametrize("mode", ["interleave", "half"])
@pytest.mark.parametrize("rows", [DECODE, PREFILL])
def test_inplace_partial_rotary_mul(rows: int, mode: str) -> None:
    x, r1, r2 = normal(rows, 1, 4, 24), normal(rows, 1, 1, 16, seed=1), normal(rows, 1, 1, 16, seed=2)
    check(ops.inplace_partial_rotary_mul, (x, r1, r2, mode, [8, 24]), partial_rotary)
    check(ops.inplace_partial_rotary_mul, (x, r1, r2, mode, [0, 16], True), partial_rotary, compiled=False)


ADAPTERS, RANK, INNER, OUTER = 3, 8, 32, 24


def shrink(x, weight, adapters, y, scale):
    for row, adapter in enumerate(adapters.tolist()):
        if adapter >= 0:
            y[row, :RANK] = scale * weight[adapter].view(RANK, INNER) @ x[row]


def expand(x, weight, adapters, y, offset, size):
    for row, adapter in enumerate(adapters.tolist()):
        if adapter >= 0:
            y[row, offset : offset + size] += weight[adapter].view(-1, RANK) @ x[row]
    return y.clone()


def by_sequences(function):
    """``function`` of rows as one of sequences. Rows behind the last sequence have no adapter."""

    def of_sequences(x, weight, adapters, lengths, *rest):
        rows = torch.repeat_interleave(adapters, lengths)
        rows = torch.cat((rows, rows.new_full((len(x) - len(rows),), -1)))
        return function(x, weight, rows, *rest)

    return of_sequences


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adapters_of_rows(dtype: torch.dtype) -> None:
    adapters = torch.tensor([2, -1, 0, 2, 1])
    x, a = normal(5, INNER, dtype=dtype), normal(ADAPTERS, 1, RANK, INNER, dtype=dtype, seed=1)
    b, y = normal(ADAPTERS, 1, OUTER, RANK, dtype=dtype, seed=2), normal(5, 2 * OUTER, dtype=dtype, seed=3)
    inner, inside = torch.ones(5, RANK), {"dynamic": False, "calls_products": True}
    check(ops.bgmv_shrink, (x, a, adapters, inner, 0.5), shrink)
    check(ops.bgmv_expand, (normal(5, RANK), b, adapters, y, OUTER, OUTER), expand, **inside)
    check(ops.bgmv_expand, (normal(5, RANK), b[:, 0], adapters, y, 0, OUTER), expand, **inside)


@pytest.mark.parametrize("lengths", [[1, 1, 1], [20, 7, 9]])
def test_adapters_of_sequences(lengths: list[int]) -> None:
    adapters, sizes = torch.tensor([1, -1, 2]), torch.tensor(lengths)
    rows = sum(lengths) + 2
    x, a = normal(rows, INNER), normal(ADAPTERS, 1, RANK, INNER, seed=1)
    b, y = normal(ADAPTERS, 1, OUTER, RANK, seed=2), normal(rows, OUTER, seed=3)
    check(ops.sgmv_shrink, (x, a, adapters, sizes, torch.zeros(rows, RANK), 2.0), by_sequences(shrink))
    args = normal(rows, RANK, seed=4), b, adapters, sizes, y, 0, OUTER
    check(ops.sgmv_expand, args, by_sequences(expand), dynamic=False, calls_products=True)


STREAMS, SIZE, ROUNDS, EPSILON = 4, 16, 5, 1e-6


def hc_weights(x, fn, scale, base):
    """The equations of the module for CPUs of vLLM, which are those of DeepSeek-V4."""
    flat = x.flatten(-2)
    mixes = (flat @ fn.t()) * torch.rsqrt(flat.pow(2).mean(-1, keepdim=True) + EPSILON)
    n = STREAMS
    before = torch.sigmoid(mixes[..., :n] * scale[0] + base[:n]) + EPSILON
    after = 2 * torch.sigmoid(mixes[..., n : 2 * n] * scale[1] + base[n : 2 * n])
    between = torch.softmax((mixes[..., 2 * n :] * scale[2] + base[2 * n :]).unflatten(-1, (n, n)), -1) + EPSILON
    between = between / (between.sum(-2, keepdim=True) + EPSILON)
    for _ in range(ROUNDS - 1):
        between = between / (between.sum(-1, keepdim=True) + EPSILON)
        between = between / (between.sum(-2, keepdim=True) + EPSILON)
    return before, after, between


def hc_pre_v2(x, fn, scale, base, *_):
    before, after, between = hc_weights(x, fn, scale, base)
    return (before.unsqueeze(-1) * x).sum(-2), after, between


def hc_pre_v3(x, fn, scale, base, pre_mix=None, **_):
    before, after, between = hc_weights(x, fn, scale, base)
    y = x[..., 0, :] if pre_mix is None else (pre_mix.unsqueeze(-1) * x).sum(-2)
    return y, after, between, before


def hc_post(x, residual, post, comb):
    return torch.einsum("...ij,...ih->...jh", comb, residual) + post.unsqueeze(-1) * x.unsqueeze(-2)


@pytest.mark.parametrize("rows", [DECODE, PREFILL])
def test_streams_are_mixed_as_by_the_reference(rows: int) -> None:
    x, count = normal(rows, STREAMS, SIZE, dtype=torch.bfloat16), STREAMS * (STREAMS + 2)
    rest = normal(count, STREAMS * SIZE, seed=1) / 4, normal(3, seed=2), normal(count, seed=3)
    check(ops.npu_hc_pre_v2, (x, *rest, STREAMS, ROUNDS, EPSILON, EPSILON), hc_pre_v2, dynamic=False)
    options = {"hc_mult": STREAMS, "hc_sinkhorn_iters": ROUNDS, "norm_eps": EPSILON, "hc_eps": EPSILON}
    pre_mix = normal(rows, STREAMS, seed=4)
    check(ops.npu_hc_pre_v3, (x, *rest, pre_mix), hc_pre_v3, dynamic=False, **options)
    check(ops.npu_hc_pre_v3, (x, *rest), hc_pre_v3, dynamic=False, compiled=False, **options)
    args = normal(1, rows, SIZE, dtype=torch.bfloat16), x.unsqueeze(0), normal(1, rows, STREAMS), normal(1, rows, 4, 4)
    check(ops.npu_hc_post, args, hc_post, dynamic=False)
