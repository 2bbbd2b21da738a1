# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of operators that write into tensors and caches, or prepare attention with latent keys."""

from __future__ import annotations

import torch

from tests.python.device.drawn_calls import Call, Draw, call, whole, written

PAGES, PLACES = 3, 4


def slots(d: Draw, *size: int) -> torch.Tensor:
    return d.integers(-1, PAGES * PLACES, *size, dtype=d.choice(torch.int32, torch.int64))


@call("scatter_update", "scatter_update_")
def scatter_update(d: Draw) -> Call:
    batch, rows, length, dtype = d.size(), d.size(), d.size(2, 6), d.dtype()
    axis, count = d.choice(-2, -1), d.size(1, 2)
    x = written(batch, rows, length, length, dtype=dtype)
    size = (count, length) if axis == -2 else (length, count)
    starts = d.integers(0, length - count + 1, batch, dtype=d.choice(torch.int32, torch.int64))
    return (x, starts, d.normal(batch, rows, *size, dtype=dtype), axis), {}


@call("npu_scatter_nd_update", "npu_scatter_nd_update_")
def scatter_nd_update(d: Draw) -> Call:
    sizes, dtype, places = (4, 5, d.size()), d.dtype(), d.size(1, 2)
    batch = d.sizes(1, 2)
    indices = d.integers(-1, 4, *batch, places, dtype=d.choice(torch.int32, torch.int64))
    return (written(*sizes, dtype=dtype), indices, d.normal(*batch, *sizes[places:], dtype=dtype)), {}


@call("npu_quant_scatter", "npu_quant_scatter_")
def quant_scatter(d: Draw) -> Call:
    batch, rows, length, n, dtype = d.size(), d.size(), d.size(), d.size(), d.dtype()
    x = written(batch, rows, length, n, dtype=torch.int8)
    points = d.maybe(lambda: d.integers(-9, 9, n, dtype=torch.int32))
    return (x, d.integers(0, length, batch), d.normal(batch, rows, 1, n, dtype=dtype), d.positive(n), points), {}


@call("npu_scatter_pa_kv_cache", "npu_scatter_pa_kv_cache_functional")
def scatter_pa_kv_cache(d: Draw) -> Call:
    tokens, heads, dtype, mode = d.rows(), d.size(), d.dtype(), d.choice("Norm", "PA_NZ")
    sizes = [4 * d.size(1, 3) for _ in range(2)]
    rows = [d.normal(tokens, heads, n, dtype=dtype) for n in sizes]
    pages = [(PLACES, heads, n) if mode == "Norm" else (heads * n // 4, PLACES, 4) for n in sizes]
    caches = [written(PAGES, *page, dtype=dtype) for page in pages]
    return (*rows, *caches, slots(d, tokens)), {"cache_mode": mode}


@call("npu_gather_pa_kv_cache")
def gather_pa_kv_cache(d: Draw) -> Call:
    batch, heads, n, dtype = d.size(), d.size(), d.size(), d.dtype()
    caches = [d.normal(PAGES, PLACES, heads, n, dtype=dtype) for _ in range(2)]
    lengths, most = whole([d.size(0, 2 * PLACES) for _ in range(batch)]).int(), 2 * PLACES * batch
    tables = d.integers(-1, PAGES, batch, 2, dtype=torch.int32)
    return (*caches, tables, lengths, *(written(most, heads, n, dtype=dtype) for _ in range(2))), {}


@call("npu_kv_rmsnorm_rope_cache", "npu_kv_rmsnorm_rope_cache_v2")
def kv_rmsnorm_rope_cache(d: Draw) -> Call:
    batch, length, rope, latent = d.size(), d.size(), 8 * d.size(1, 2), 8 * d.size(1, 2)
    mode = d.choice("Norm", "PA", "PA_NZ", "PA_BNSD")
    head = (batch, 1, 9) if mode == "Norm" else (PAGES, PLACES, 1)
    index = d.integers(-1, 9, batch, length) if mode == "Norm" else slots(d, batch * length)
    tables = [d.normal(batch, 1, length, rope) for _ in range(2)]
    args = (d.normal(batch, 1, length, latent + rope), d.normal(latent), *tables, index.long())
    return (*args, written(*head, rope), written(*head, latent)), {"cache_mode": mode, "is_output_kv": d.flag()}


@call("npu_qkv_rms_norm_rope_cache")
def qkv_rms_norm_rope_cache(d: Draw) -> Call:
    tokens, n, mode = d.rows(), 8, d.choice("PA_NZ", "PA_BSND")
    heads = [d.size(), k := d.size(), k]
    gammas, tables = [d.normal(n) for _ in range(2)], [d.normal(tokens, n) for _ in range(2)]
    page = (PLACES, k, n) if mode == "PA_BSND" else (k * n // 4, PLACES, 4)
    outputs = (written(tokens, heads[0] * n), written(PAGES, *page), written(PAGES, *page))
    sizes = [tokens, 1, sum(heads), n]
    args = (d.normal(tokens, sum(heads) * n), *gammas, *tables, slots(d, tokens).long(), *outputs, sizes, heads)
    return args, {"cache_mode": mode}


def prolog(d: Draw) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """Returns the arguments in front of the caches, the caches, and the index."""
    batch, hidden, rank, heads = d.sizes(1, 2), d.size(), d.size(), d.size()
    nope, rope, latent = d.size(), 8, 8 * d.size(1, 2)
    sizes = [(*batch, hidden), (hidden, rank), (rank, heads * (nope + rope)), (heads, nope, latent)]
    sizes += [(hidden, latent + rope), (rank,), (latent,), (*batch, rope), (*batch, rope)]
    caches = [written(PAGES, PLACES, 1, n) for n in (latent, rope)]
    return [d.normal(*size) for size in sizes], caches, slots(d, *batch).long()


@call("npu_mla_prolog_v2")
def mla_prolog_v2(d: Draw) -> Call:
    first, caches, index = prolog(d)
    return (*first, index, *caches), {"cache_mode": d.choice("PA_BSND", "PA_NZ")}


@call("npu_mla_prolog_v3")
def mla_prolog_v3(d: Draw) -> Call:
    first, caches, index = prolog(d)
    how = {"query_norm_flag": d.flag(), "cache_mode": d.choice("PA_BSND", "PA_NZ")}
    return (*first, *caches), how | {"cache_index": index}
