# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/rope_cache.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, normal


def rms_norm(x, gamma, epsilon=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * gamma


def rope(x, cos, sin):
    """Places i and i + n/2, as complex numbers."""
    a, b = x.chunk(2, -1)
    (c0, c1), (s0, s1) = cos.chunk(2, -1), sin.chunk(2, -1)
    return torch.cat([a * c0 - b * s0, b * c1 + a * s1], -1)


def interleave_rope(x, cos, sin):
    return rope(torch.cat([x[..., ::2], x[..., 1::2]], -1), cos, sin)


def quantise(x):
    return x.round().clamp(-128, 127)


def put(cache, slots, tokens):
    """``cache``: [pages, places, ...]; ``slots`` and ``tokens`` one by one."""
    for slot, token in zip(slots, tokens, strict=True):
        if slot >= 0:
            cache[slot // cache.shape[1], slot % cache.shape[1]] = token.reshape(cache.shape[2:]).to(cache.dtype)


def put_kv(cache, tokens, index, mode, piece=None):
    """``tokens``: [batch, heads, length, dim]"""
    batch, _, length, _ = tokens.shape
    flat = tokens.transpose(1, 2).flatten(0, 1)
    if mode == "Norm":
        places = [b * cache.shape[2] + i if i >= 0 else -1 for b in range(batch) for i in index[b].tolist()]
        return put(cache.transpose(1, 2), places, flat)
    slots = index.flatten().tolist()
    if "BLK" in mode:
        size, per_batch = cache.shape[1], len(slots) // batch
        firsts = [slots[b * per_batch + s // size] for b in range(batch) for s in range(length)]
        slots = [first + i % length % size if first >= 0 else -1 for i, first in enumerate(firsts)]
    if mode.endswith("NZ"):
        pages, places, heads, dim = cache.shape
        cache = cache.view(pages, heads * dim // piece, places, piece).transpose(1, 2)
    return put(cache, slots, flat)


def kv_rmsnorm_rope_cache(kv, gamma, cos, sin, index, k_cache, ckv_cache, *, cache_mode="Norm", **given):
    latent = rms_norm(kv[..., : len(gamma)], gamma)
    key = interleave_rope(kv[..., len(gamma) :], cos, sin)
    for x, cache, name, itemsize in ((key, k_cache, "k_rope", 4), (latent, ckv_cache, "c_kv", 4)):
        if (scale := given.get(f"{name}_scale")) is not None:
            x, itemsize = quantise(x * scale + given.get(f"{name}_offset", 0)), 1
        put_kv(cache, x, index, cache_mode, 32 // itemsize)
    return k_cache, ckv_cache, key, latent


CACHES = {
    "Norm": ((2, 1, 9, 8), (2, 1, 9, 16), torch.tensor([[3, 0, -1], [8, 1, 2]])),
    "PA": ((3, 4, 1, 8), (3, 4, 1, 16), torch.tensor([3, 0, -1, 8, 11, 2])),
    "PA_NZ": ((3, 4, 1, 8), (3, 4, 1, 16), torch.tensor([3, 0, -1, 8, 11, 2])),
    "PA_BLK_BNSD": ((5, 2, 1, 8), (5, 2, 1, 16), torch.tensor([4, 0, 8, -1])),
    "PA_BLK_NZ": ((5, 2, 1, 8), (5, 2, 1, 16), torch.tensor([4, 0, 8, -1])),
}


def kv_arguments(mode: str) -> tuple:
    key_size, latent_size, index = CACHES[mode]
    tables = (normal(2, 1, 3, 8, seed=2), normal(2, 1, 3, 8, seed=3))
    return (normal(2, 1, 3, 24), normal(16, seed=1), *tables, index, normal(*key_size), normal(*latent_size))


@pytest.mark.parametrize("mode", CACHES)
def test_kv_rmsnorm_rope_cache(mode: str) -> None:
    check(torch_npu.npu_kv_rmsnorm_rope_cache, kv_arguments(mode), kv_rmsnorm_rope_cache, cache_mode=mode)


def test_variants_of_kv_rmsnorm_rope_cache() -> None:
    args = kv_arguments("PA")

    def functional(*args, **kwargs):
        args = (*args[:5], args[5].clone(), args[6].clone())
        k_cache, ckv_cache, key, latent = kv_rmsnorm_rope_cache(*args, **kwargs)
        return key, latent, k_cache, ckv_cache

    def in_place(*args, **kwargs):
        return kv_rmsnorm_rope_cache(*args, **kwargs)[2:]

    check(torch_npu.npu_kv_rmsnorm_rope_cache_v2, args, in_place, cache_mode="PA", whole=True)
    check(torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional, args, functional, cache_mode="PA")


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
def test_kv_rmsnorm_rope_cache_in_int8(mode: str) -> None:
    *args, k_cache, ckv_cache = kv_arguments(mode)
    if mode == "PA_NZ":
        k_cache = torch.zeros(3, 4, 1, 32)
        args[0], args[2], args[3] = normal(2, 1, 3, 64), normal(2, 1, 3, 32), normal(2, 1, 3, 32, seed=1)
        args[1], ckv_cache = normal(32, seed=1), torch.zeros(3, 4, 1, 32)
    scales = {"k_rope_scale": torch.tensor([40.0]), "c_kv_scale": normal(args[1].shape[0], seed=5) * 50}
    args = (*args, k_cache.char(), ckv_cache.char())
    op = torch_npu.npu_kv_rmsnorm_rope_cache
    check(op, args, kv_rmsnorm_rope_cache, cache_mode=mode, **scales, c_kv_offset=torch.tensor([3.0]))


def qkv_rms_norm_rope_cache(
    qkv, q_gamma, k_gamma, cos, sin, index, q_out, k_cache, v_cache, _, heads, *, cache_mode="PA_NZ", **given
):
    q, k, v = qkv.view(len(qkv), sum(heads), -1).split(heads, 1)
    q, k = (rope(rms_norm(x, g, 1e-6), cos[:, None], sin[:, None]) for x, g in ((q, q_gamma), (k, k_gamma)))
    q_out.copy_(q.flatten(1))
    for x, cache, name in ((k, k_cache, "k"), (v, v_cache, "v")):
        if (scale := given.get(f"{name}_scale")) is not None:
            x = quantise(x / scale)
        put(cache.transpose(1, 2) if cache_mode == "PA_NZ" else cache, index.tolist(), x)
    return q.flatten(1), k.flatten(1), v.flatten(1)


def qkv_arguments(dtype: torch.dtype, *size: int) -> tuple:
    tables = (normal(5, 8, seed=3), normal(5, 8, seed=4))
    caches = (normal(*size, seed=5) * 9, normal(*size, seed=6) * 9)
    outputs = (torch.zeros(5, 32), *(cache.to(dtype) for cache in caches))
    index = torch.tensor([3, 0, -1, 8, 11])
    return normal(5, 64), normal(8, seed=1), normal(8, seed=2), *tables, index, *outputs, [5, 1, 8, 8], [4, 2, 2]


def test_qkv_rms_norm_rope_cache() -> None:
    op = torch_npu.npu_qkv_rms_norm_rope_cache
    pages, pieces = (3, 4, 2, 8), (3, 4, 4, 4)
    check(op, qkv_arguments(torch.float32, *pages), qkv_rms_norm_rope_cache, cache_mode="PA_BSND", whole=True)
    check(op, qkv_arguments(torch.float32, *pieces), qkv_rms_norm_rope_cache, whole=True)
    scale = {"k_scale": torch.tensor([0.02]), "v_scale": normal(2, 8, seed=9).abs() / 9 + 0.01}
    check(op, qkv_arguments(torch.int8, *pieces), qkv_rms_norm_rope_cache, **scale, whole=True)

    def functional(*args, **kwargs):
        written = [x.clone() for x in args[6:9]]
        return *qkv_rms_norm_rope_cache(*args[:6], *written, *args[9:], **kwargs), *written

    check(torch_npu.npu_qkv_rms_norm_rope_cache_functional, qkv_arguments(torch.float32, *pieces), functional)
