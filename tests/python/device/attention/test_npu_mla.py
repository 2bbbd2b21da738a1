# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/rotary/rope_cache.cc, rope_quant_cache.cc and mla_prolog.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, integers, normal


def rms_norm(x, gamma, epsilon=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * gamma


def rope(x, cos, sin):
    """Rotates elements i and i + n/2 as complex numbers."""
    a, b = x.chunk(2, -1)
    (c0, c1), (s0, s1) = cos.chunk(2, -1), sin.chunk(2, -1)
    return torch.cat([a * c0 - b * s0, b * c1 + a * s1], -1)


def interleave_rope(x, cos, sin):
    return rope(torch.cat([x[..., ::2], x[..., 1::2]], -1), cos, sin)


def quantise(x):
    return x.round().clamp(-128, 127)


def put(cache, slots, tokens):
    """Writes one token after the other to its slot of ``cache``, [pages, places, ...]. Skips negative slots."""
    for slot, token in zip(slots, tokens, strict=True):
        if slot >= 0:
            cache[slot // cache.shape[1], slot % cache.shape[1]] = token.reshape(cache.shape[2:]).to(cache.dtype)


def put_kv(cache, tokens, index, mode, piece=None):
    """Writes ``tokens`` [batch, heads, length, dim] to ``cache`` in the given cache mode."""
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
    check(
        torch_npu.npu_kv_rmsnorm_rope_cache,
        kv_arguments(mode),
        kv_rmsnorm_rope_cache,
        cache_mode=mode,
        dynamic=mode == "PA",
    )


def test_variants_of_kv_rmsnorm_rope_cache() -> None:
    args = kv_arguments("PA")

    def functional(*args, **kwargs):
        args = (*args[:5], args[5].clone(), args[6].clone())
        k_cache, ckv_cache, key, latent = kv_rmsnorm_rope_cache(*args, **kwargs)
        return key, latent, k_cache, ckv_cache

    def in_place(*args, **kwargs):
        return kv_rmsnorm_rope_cache(*args, **kwargs)[2:]

    check(torch_npu.npu_kv_rmsnorm_rope_cache_v2, args, in_place, cache_mode="PA", whole=True)
    check(torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional, args, functional, cache_mode="PA", dynamic=False)


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
    check(op, args, kv_rmsnorm_rope_cache, cache_mode=mode, **scales, c_kv_offset=torch.tensor([3.0]), dynamic=False)


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
    check(op, qkv_arguments(torch.float32, *pieces), qkv_rms_norm_rope_cache, whole=True, dynamic=False)
    scale = {"k_scale": torch.tensor([0.02]), "v_scale": normal(2, 8, seed=9).abs() / 9 + 0.01}
    check(op, qkv_arguments(torch.int8, *pieces), qkv_rms_norm_rope_cache, **scale, whole=True, dynamic=False)

    def functional(*args, **kwargs):
        written = [x.clone() for x in args[6:9]]
        return *qkv_rms_norm_rope_cache(*args[:6], *written, *args[9:], **kwargs), *written

    op = torch_npu.npu_qkv_rms_norm_rope_cache_functional
    check(op, qkv_arguments(torch.float32, *pieces), functional, dynamic=False)


def rope_quant_kvcache(x, cos, sin, k_cache, v_cache, indices, scale_k, scale_v, splits, **given):
    q, k, v = (part.unflatten(-1, (-1, cos.shape[-1])) for part in x.split(splits, -1))
    q, k = rope(q, cos, sin), rope(k, cos, sin)
    for tokens, cache, scale, name in ((k, k_cache, scale_k, "offset_k"), (v, v_cache, scale_v, "offset_v")):
        values = quantise(tokens / scale + given.get(name, 0)).flatten(0, 1)
        slots = indices.flatten().tolist()
        if given.get("cache_mode") != "page":
            length = x.shape[1]
            slots = [b * cache.shape[1] + i + s if i >= 0 else -1 for b, i in enumerate(slots) for s in range(length)]
        put(cache, slots, values)
    empty = x.new_empty(0)
    return (q, k, v, k_cache, v_cache) if given.get("kv_output") else (q, empty, empty, k_cache, v_cache)


def rope_arguments(dtype: torch.dtype, *cache: int) -> tuple:
    tables = (normal(2, 3, 1, 8, seed=1, dtype=dtype), normal(2, 3, 1, 8, seed=2, dtype=dtype))
    caches = (integers(-9, 9, *cache, dtype=torch.int8), integers(-9, 9, *cache, dtype=torch.int8, seed=1))
    return normal(2, 3, 64, dtype=dtype), *tables, *caches


SCALES = (torch.tensor([0.02] * 8), normal(8, seed=4).abs() / 9 + 0.01, [32, 16, 16])


def test_rope_quant_kvcache() -> None:
    op = torch_npu.npu_rope_quant_kvcache
    args = (*rope_arguments(torch.float32, 2, 7, 2, 8), torch.tensor([4, -1]), *SCALES)
    check(op, args, rope_quant_kvcache)
    slots = torch.tensor([3, 0, -1, 8, 11, 2], dtype=torch.int32)
    args = (*rope_arguments(torch.float32, 3, 4, 2, 8), slots, *SCALES)
    offset = {"offset_k": torch.tensor([3] * 8, dtype=torch.int32)}
    check(op, args, rope_quant_kvcache, cache_mode="page", kv_output=True, **offset, dynamic=False)


@pytest.mark.parametrize("bias", [integers(-9, 9, 64, dtype=torch.int32), normal(64, seed=8)])
def test_dequant_rope_quant_kvcache(bias: torch.Tensor) -> None:
    def reference(x, *args, weight_scale, activation_scale, bias, **kwargs):
        is_before = not bias.is_floating_point()
        x = (x + bias if is_before else x).double() * weight_scale * activation_scale.view(2, 3, 1)
        return rope_quant_kvcache(x if is_before else x + bias, *args, **kwargs)

    _, *args = (*rope_arguments(torch.float32, 2, 7, 2, 8), torch.tensor([4, 0]), *SCALES)
    scales = {"weight_scale": normal(64, seed=6) / 50, "activation_scale": normal(6, seed=7).abs()}
    x = integers(-99, 99, 2, 3, 64, dtype=torch.int32)
    check(
        torch_npu.npu_dequant_rope_quant_kvcache,
        (x, *args),
        reference,
        bias=bias,
        kv_output=True,
        **scales,
        dynamic=False,
    )


HIDDEN, RANK, HEADS, NOPE, ROPE, LATENT = 16, 12, 2, 4, 8, 32


def rows_in_int8(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return quantise(x / scale), scale


def mla_prolog_v3(
    x, w_dq, w_uq_qr, w_uk, w_dkv_kr, gamma_cq, gamma_ckv, sin, cos, kv_cache, kr_cache, *, cache_index, **given
):
    batch = x.shape[:-1]
    x, sin, cos = (t.flatten(0, -2).double() for t in (x, sin, cos))
    token_scale = given.get("dequant_scale_x", 1)

    def product(x, w, scale, rows=1):
        return x @ w.double() * given.get(f"dequant_scale_w_{scale}", 1) * rows

    c = rms_norm(product(x, w_dq, "dq", token_scale), gamma_cq)
    norm, norm_scale = c, x.new_empty(0)
    if given.get("dequant_scale_w_uq_qr") is not None:
        norm, norm_scale = rows_in_int8(c * given.get("smooth_scales_cq", 1))
    up = product(norm, w_uq_qr, "uq_qr", norm_scale if norm_scale.numel() else 1) * given.get("qc_qr_scale", 1)
    up = up.view(-1, HEADS, NOPE + ROPE)
    query, query_rope = torch.einsum("thd,hdl->thl", up[..., :NOPE], w_uk), up[..., NOPE:]
    query_rope = interleave_rope(query_rope, cos[:, None], sin[:, None])
    scale = x.new_empty(0)
    if given.get("quant_scale_ckv") is not None and given["quant_scale_ckv"].numel() == 1:
        query, scale = rows_in_int8(query)
    down = product(x, w_dkv_kr, "dkv_kr", token_scale)
    latent = rms_norm(down[:, :LATENT], gamma_ckv) * given.get("kc_scale", 1)
    key = interleave_rope(down[:, LATENT:], cos, sin)
    for values, cache, name in ((latent, kv_cache, "ckv"), (key, kr_cache, "ckr")):
        itemsize = 4
        if (by := given.get(f"quant_scale_{name}")) is not None:
            values, itemsize = quantise(values * by), 1
        put_kv(cache, values[None, None], cache_index, given.get("cache_mode", "PA_BSND"), 32 // itemsize)
    unflatten = [t.unflatten(0, batch) for t in (query, query_rope, norm)]
    if not given.get("query_norm_flag"):
        unflatten[2], norm_scale = x.new_empty(0), x.new_empty(0)
    return *unflatten[:2], scale, unflatten[2], norm_scale


def mla_prolog(*args, **given):
    *first, cache_index, kv_cache, kr_cache = args
    query, query_rope, *_ = mla_prolog_v3(*first, kv_cache, kr_cache, cache_index=cache_index, **given)
    return query, query_rope, kv_cache, kr_cache


def mla_prolog_v2(*args, **given):
    *first, cache_index, kv_cache, kr_cache = args
    query, query_rope, scale, *_ = mla_prolog_v3(*first, kv_cache, kr_cache, cache_index=cache_index, **given)
    return query, query_rope, kv_cache, kr_cache, scale


def mla_arguments(*batch: int) -> tuple:
    """Returns the arguments up to the caches, which come last."""
    sizes = [(HIDDEN, RANK), (RANK, HEADS * (NOPE + ROPE)), (HEADS, NOPE, LATENT), (HIDDEN, LATENT + ROPE)]
    sizes += [(RANK,), (LATENT,), (*batch, ROPE), (*batch, ROPE)]
    weights = [normal(*size, seed=i) for i, size in enumerate(sizes)]
    return normal(*batch, HIDDEN, seed=9), *weights, normal(3, 4, 1, LATENT, seed=10), normal(3, 4, 1, ROPE, seed=11)


INDEX = torch.tensor([3, 0, -1, 8, 11, 2])


def test_mla_prolog() -> None:
    *first, kv_cache, kr_cache = mla_arguments(6)
    check(torch_npu.npu_mla_prolog, (*first, INDEX, kv_cache, kr_cache), mla_prolog, dynamic=False)
    *first, kv_cache, kr_cache = mla_arguments(2, 3)
    args = (*first, INDEX.view(2, 3), kv_cache, kr_cache)
    check(torch_npu.npu_mla_prolog_v2, args, mla_prolog_v2, cache_mode="PA_NZ", dynamic=False)


def test_mla_prolog_v3() -> None:
    more = {"query_norm_flag": True, "qc_qr_scale": 1.5, "kc_scale": 0.5}
    args = mla_arguments(2, 3)
    check(torch_npu.npu_mla_prolog_v3, args, mla_prolog_v3, cache_index=INDEX.view(2, 3), **more, whole=True)

    def functional(*args, **given):
        caches = [cache.clone() for cache in args[-2:]]
        return *mla_prolog_v3(*args[:-2], *caches, **given), *caches

    check(torch_npu.npu_mla_prolog_v3_functional, mla_arguments(6), functional, cache_index=INDEX, dynamic=False)


def in_int8(x):
    scale = x.abs().amax(0, keepdim=True) / 127
    return (x / scale).round().char(), scale


def test_mla_prolog_of_one_weight_in_int8() -> None:
    *first, kv_cache, kr_cache = mla_arguments(6)
    first[2], scale = in_int8(first[2])
    given = {"dequant_scale_w_uq_qr": scale, "smooth_scales_cq": normal(1, RANK, seed=12).abs() + 0.5}
    given |= {
        "quant_scale_ckv": normal(1, LATENT, seed=13).abs() * 30,
        "quant_scale_ckr": normal(1, ROPE, seed=14) * 30,
    }
    args = (*first, INDEX, kv_cache.char(), kr_cache.char())
    check(torch_npu.npu_mla_prolog_v2, args, mla_prolog_v2, **given, dynamic=False)


def test_mla_prolog_in_int8() -> None:
    *first, kv_cache, kr_cache = mla_arguments(6)
    scales = {}
    for i, name in ((1, "dq"), (2, "uq_qr"), (4, "dkv_kr")):
        first[i], scales[f"dequant_scale_w_{name}"] = in_int8(first[i])
    tokens, scales["dequant_scale_x"] = in_int8(first[0].T)
    first[0], scales["dequant_scale_x"] = tokens.T.contiguous(), scales["dequant_scale_x"].T.contiguous()
    args = (*first, INDEX, kv_cache.char(), kr_cache)
    check(
        torch_npu.npu_mla_prolog_v2, args, mla_prolog_v2, **scales, quant_scale_ckv=torch.tensor([20.0]), dynamic=False
    )


KV = kv_arguments("Norm")
QKV = qkv_arguments(torch.float32, 3, 4, 2, 8)
PROLOG = mla_arguments(6)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "error", "message"),
    [
        (
            "npu_kv_rmsnorm_rope_cache",
            KV,
            {"cache_mode": "X"},
            RuntimeError,
            "cache_mode is 'X', allowed are 'Norm', 'PA'",
        ),
        ("npu_kv_rmsnorm_rope_cache", KV, {"v": KV[0]}, NotImplementedError, "v is not supported on the host"),
        ("npu_kv_rmsnorm_rope_cache", (KV[0][0], *KV[1:]), {}, RuntimeError, "kv has 3 dimensions, allowed are 4 to 4"),
        ("npu_qkv_rms_norm_rope_cache", QKV, {"cache_mode": "X"}, RuntimeError, "allowed are 'PA_NZ' and 'PA_BSND'"),
        ("npu_qkv_rms_norm_rope_cache", (*QKV[:10], [3, 2, 2]), {}, RuntimeError, "64 columns, .* head_nums"),
        ("npu_mla_prolog_v3", PROLOG, {}, NotImplementedError, "without cache_index is not supported on the host"),
        (
            "npu_mla_prolog_v3",
            PROLOG,
            {"weight_quant_mode": 3},
            NotImplementedError,
            "weight_quant_mode is 3, supported",
        ),
        (
            "npu_mla_prolog_v3",
            PROLOG,
            {"kv_cache_quant_mode": 3},
            NotImplementedError,
            "kv_cache_quant_mode is 3, supp",
        ),
        ("npu_mla_prolog_v3", PROLOG, {"ckvkr_repo_mode": 1}, NotImplementedError, "ckvkr_repo_mode is 1 and quant_sc"),
        ("npu_mla_prolog_v3", PROLOG, {"actual_seq_len": INDEX}, NotImplementedError, "actual_seq_len and k_nope_clip"),
        ("npu_mla_prolog_v3", PROLOG, {"cache_mode": "BSND"}, RuntimeError, "allowed are 'PA_BSND' and 'PA_NZ'"),
    ],
)
def test_unsupported_and_unknown_arguments_are_refused(
    name: str, args: tuple, kwargs: dict, error: type[Exception], message: str
) -> None:
    if name == "npu_mla_prolog_v3" and "without" not in message:
        kwargs = {"cache_index": INDEX, **kwargs}
    with pytest.raises(error, match=message):
        getattr(torch_npu, name)(*args, **kwargs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_layout": "TND"}, "input_layout is 'TND', allowed is 'BSND'"),
        ({"quant_mode": 1}, r"quant_mode is 1, allowed is 0 \(static\)"),
        ({"cache_mode": "pages"}, "cache_mode is 'pages', allowed are 'contiguous' and 'page'"),
    ],
)
def test_errors_of_rope_quant_kvcache(given: dict, message: str) -> None:
    args = (*rope_arguments(torch.float32, 2, 7, 2, 8), torch.tensor([4, 0]), *SCALES)
    with pytest.raises(RuntimeError, match=message):
        torch_npu.npu_rope_quant_kvcache(*args, **given)
