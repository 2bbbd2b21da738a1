# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/rotary/mla_preprocess.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu  # noqa: F401

from tests.python.device.attention.test_npu_mla import put, quantise, rms_norm, rope
from tests.python.device.npu_operators import FLOATING, check, integers, normal

TOKENS, INPUT, LATENT, ROPE, QUERY, HEADS, SIZE = 5, 32, 16, 8, 32, 3, 4
UP = HEADS * (SIZE + ROPE)
SLOTS = torch.tensor([3, 0, -1, 8, 11])
PREPROCESS = torch.ops.atb.npu_mla_preprocess


def by_layer(x, weight, descale, mode, scale, offset, bias):
    if weight.is_floating_point():
        return x @ weight.T
    if mode == "per_token_quant_symm":
        of_rows = x.abs().amax(1, keepdim=True) / 127
        return (x / of_rows).round() @ weight.double().T * of_rows * descale
    sums = quantise(x / scale + offset) @ weight.double().T
    return (sums if bias is None else sums + bias) * descale


def plain(weight):
    """Returns the rows of a weight that may be stored in pieces of rows."""
    if weight.dim() == 2:
        return weight
    return torch.stack([torch.cat([piece[row] for piece in weight[0]]) for row in range(weight.shape[2])])


def preprocess(
    *args, quant_scale0=None, quant_offset0=None, bias0=None, quant_scale1=None, quant_offset1=None, bias1=None,
    ctkv_scale=None, q_nope_scale=None, cache_mode=None, quant_mode=None, q_out0=None, q_out1=None,
    kv_cache_out0=None, kv_cache_out1=None,
):  # fmt: skip
    x, gamma0, beta0, wdqkv, descale0, gamma1, beta1, wuq, descale1, gamma2, cos, sin, wuk, latents, keys, slots = args
    if kv_cache_out0 is not None:
        latents, keys = kv_cache_out0, kv_cache_out1
    normed = rms_norm(x, gamma0, 1e-6) + beta0
    down = by_layer(normed, plain(wdqkv), descale0, quant_mode, quant_scale0, quant_offset0, bias0)
    latent, key, query = down.split([LATENT, ROPE, QUERY], 1)
    query = rms_norm(query, gamma1, 1e-6) + beta1
    up = by_layer(query, plain(wuq), descale1, quant_mode, quant_scale1, quant_offset1, bias1)
    nope, turning = up.view(TOKENS, HEADS, SIZE + ROPE).split([SIZE, ROPE], 2)
    nope, latent = torch.einsum("thi,hij->thj", nope, wuk), rms_norm(latent, gamma2, 1e-6)
    if cache_mode == "int8_nzcache":
        nope, latent = quantise(nope / q_nope_scale[:, None]), quantise(latent / ctkv_scale)
    for cache, rows in ((latents, latent), (keys, rope(key, cos, sin))):
        natural = cache.shape[3] == rows.shape[1]
        if natural and cache_mode in ("nzcache", "int8_nzcache"):
            piece = 8 if cache.is_floating_point() else 32
            cache = cache.view(cache.shape[0], rows.shape[1] // piece, cache.shape[1], piece)
            natural = False
        put(cache if natural else cache.transpose(1, 2), slots.tolist(), rows)
    turned = rope(turning, cos[:, None], sin[:, None])
    if q_out0 is None:
        return nope, latents, turned, keys
    q_out0.copy_(nope)
    q_out1.copy_(turned)
    return q_out0, latents, q_out1, keys


def weights(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns wdqkv and wuq."""
    sizes = ((LATENT + ROPE + QUERY, INPUT), (UP, QUERY))
    if dtype == torch.int8:
        return tuple(integers(-99, 99, *size, dtype=dtype, seed=i) for i, size in enumerate(sizes))
    return tuple(normal(*size, seed=i).to(dtype) / 5 for i, size in enumerate(sizes))


def arguments(dtype: torch.dtype, of_weights: tuple, *caches: torch.Tensor) -> tuple:
    def vector(size: int, seed: int) -> torch.Tensor:
        return normal(size, dtype=dtype, seed=seed)

    def descale(size: int, seed: int) -> torch.Tensor:
        return normal(size, seed=seed).abs() / 5000

    down, up = of_weights
    tables = normal(TOKENS, ROPE, dtype=dtype, seed=11), normal(TOKENS, ROPE, dtype=dtype, seed=12)
    before = (vector(INPUT, 3), vector(INPUT, 4), down, descale(LATENT + ROPE + QUERY, 5))
    between = (vector(QUERY, 6), vector(QUERY, 7), up, descale(UP, 8), vector(LATENT, 9))
    to_latent = normal(HEADS, SIZE, LATENT, dtype=dtype, seed=10)
    return (normal(TOKENS, INPUT, dtype=dtype, seed=2), *before, *between, *tables, to_latent, *caches, SLOTS)


def caches(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return normal(3, 4, 1, LATENT, dtype=dtype), normal(3, 4, 1, ROPE, dtype=dtype, seed=1)


def quantisation() -> dict:
    return {
        "quant_scale0": torch.tensor([0.031]),
        "quant_offset0": torch.tensor([3], dtype=torch.int8),
        "bias0": integers(-9, 9, LATENT + ROPE + QUERY, dtype=torch.int32),
        "quant_scale1": torch.tensor([0.043]),
        "quant_offset1": torch.tensor([-7], dtype=torch.int8),
    }


@pytest.mark.parametrize("dtype", FLOATING)
def test_without_quantisation(dtype: torch.dtype) -> None:
    args, whole = arguments(dtype, weights(dtype), *caches(dtype)), dtype == torch.float32
    check(PREPROCESS, args, preprocess, quant_mode="no_quant", compiled=whole, dynamic=whole)


def test_weights_in_int8() -> None:
    args, static = arguments(torch.float32, weights(torch.int8), *caches()), {"dynamic": False, "compiled": False}
    check(PREPROCESS, args, preprocess, **quantisation(), cache_mode="krope_ctkv", compiled=False)
    check(PREPROCESS, args, preprocess, quant_mode="per_token_quant_symm", **static)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_empty_tensors_stand_for_what_a_mode_does_not_use(dtype: torch.dtype) -> None:
    args, none = [*arguments(torch.float32, weights(dtype), *caches())], torch.empty(0)
    quant_mode, without = "per_token_quant_symm", (2, 6)  # beta0, beta1
    if dtype == torch.float32:
        quant_mode, without = "no_quant", (2, 4, 6, 8)  # and descale0, descale1
    given = [none if i in without else x for i, x in enumerate(args)]
    empty = {name: none.to(x.dtype) for name, x in quantisation().items()}
    empty |= {"bias1": none.int(), "ctkv_scale": none, "q_nope_scale": none}

    def reference(*args, quant_mode, **_):
        return preprocess(*(0 if i in without else x for i, x in enumerate(args)), quant_mode=quant_mode)

    whole = dtype == torch.float32
    check(PREPROCESS, given, reference, quant_mode=quant_mode, **empty, compiled=whole, dynamic=whole)
    with pytest.raises(RuntimeError, match="the scale of wdqkv is needed"):
        PREPROCESS(*arguments(torch.float32, weights(torch.int8), *caches()), **empty)


def test_weights_in_pieces() -> None:
    def in_pieces(weight: torch.Tensor, n: int) -> torch.Tensor:
        return weight.unflatten(-1, (-1, n)).transpose(0, 1).contiguous()[None]

    of_weights = tuple(in_pieces(weight, 16) for weight in weights(torch.int8))
    args, static = arguments(torch.float32, of_weights, *caches()), {"dynamic": False, "compiled": False}
    check(PREPROCESS, args, preprocess, **quantisation(), **static)
    pieces = torch.stack([in_pieces(head, 8)[0] for head in args[12]])
    got = PREPROCESS(*args[:12], pieces, *(x.clone() for x in args[13:]), **quantisation())
    assert torch.equal(got[0], PREPROCESS(*args, **quantisation())[0])


@pytest.mark.parametrize("natural", [True, False])
def test_caches_in_pieces(natural: bool) -> None:
    shapes = [(3, 4, 1, LATENT), (3, 4, 1, ROPE)] if natural else [(3, LATENT // 8, 4, 8), (3, ROPE // 4, 4, 4)]
    given = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    args, static = arguments(torch.float32, weights(torch.float32), *given), {"dynamic": False, "compiled": False}
    check(PREPROCESS, args, preprocess, cache_mode="nzcache", **static)


def test_a_latent_in_int8() -> None:
    latents = integers(-9, 9, 3, LATENT // 8, 4, 8, dtype=torch.int8)
    args = arguments(torch.float32, weights(torch.float32), latents, normal(3, ROPE // 4, 4, 4))
    scales = {"ctkv_scale": torch.tensor([0.03]), "q_nope_scale": torch.tensor([0.1, 0.2, 0.3])}
    check(PREPROCESS, args, preprocess, cache_mode="int8_nzcache", **scales, dynamic=False, compiled=False)


def test_into_out() -> None:
    args = arguments(torch.float32, weights(torch.float32), *caches())
    out = {"q_out0": torch.zeros(TOKENS, HEADS, LATENT), "q_out1": torch.zeros(TOKENS, HEADS, ROPE)}
    into = dict(zip(("kv_cache_out0", "kv_cache_out1"), caches(), strict=True))
    check(PREPROCESS.out, args, preprocess, **out, **into)


def test_wrong_modes_sizes_and_missing_scales_are_refused() -> None:
    args = arguments(torch.float32, weights(torch.int8), *caches())

    def check_message(message: str, *args: torch.Tensor, **kwargs: str) -> None:
        with pytest.raises(RuntimeError, match=f"^npu_mla_preprocess: {message}"):
            PREPROCESS(*args, **kwargs)

    check_message("cache_mode is 'kvcache', allowed are 'krope_ctkv', 'int8_nzcache' and", *args, cache_mode="kvcache")
    check_message("quant_mode is 'other', allowed are 'per_tensor_quant_asymm'", *args, quant_mode="other")
    check_message("the scale of wdqkv is needed", *args)
    check_message("wdqkv has rows of 32, for rows of 31", args[0][:, 1:], args[1][1:], args[2][1:], *args[3:])
    plain = arguments(torch.float32, weights(torch.float32), *caches())
    check_message(
        "wdqkv has 56 rows, and not those of gamma2, cos and gamma1, 16 . 8 . 31", *plain[:5], plain[5][1:], *plain[6:]
    )
    check_message("wuq has 36 rows, and not those of 2 heads of size 4 . 8", *plain[:12], plain[12][:2], *plain[13:])
    check_message("q_nope_scale, for int8_nzcache, of wuq is needed", *plain, cache_mode="int8_nzcache")
