# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of operators for mixtures of experts."""

from __future__ import annotations

import torch

from tests.python.device.drawn_calls import Call, Draw, call, whole

EXPERTS = 8


def experts_of(d: Draw, tokens: int, k: int) -> torch.Tensor:
    return d.integers(0, EXPERTS, tokens, k, dtype=torch.int32)


def order(n: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(0)).int().npu()


@call("npu_moe_init_routing_v2")
def init_routing_v2(d: Draw) -> Call:
    tokens, n, k = d.rows(), d.size(), d.size(1, 3)
    how = {"expert_num": EXPERTS, "expert_tokens_num_type": d.choice(0, 1, 2), "row_idx_type": d.choice(0, 1)}
    how |= d.given(active_expert_range=lambda: [d.size(0, 3), d.size(4, EXPERTS)], quant_mode=lambda: 1)
    if d.flag():
        how |= {"drop_pad_mode": 1, "expert_capacity": d.size(), "expert_tokens_num_type": 1, "row_idx_type": 0}
    return (d.normal(tokens, n, dtype=d.dtype()), experts_of(d, tokens, k)), how


@call("npu_moe_init_routing")
def init_routing(d: Draw) -> Call:
    tokens, n, k = d.rows(), d.size(), d.size(1, 3)
    rows = torch.arange(tokens * k, dtype=torch.int32).view(k, tokens).t().contiguous().npu()
    return (d.normal(tokens, n, dtype=d.dtype()), rows, experts_of(d, tokens, k), d.size(1, 9)), {}


@call("npu_moe_gating_top_k")
def gating_top_k(d: Draw) -> Call:
    tokens, dtype, groups = d.rows(), d.dtype(), d.choice(1, 4)
    how = {"group_count": groups, "k_group": d.choice(1, 2) if groups > 1 else 1, "norm_type": d.choice(0, 1)}
    how |= {"renorm": d.choice(0, 1), "out_flag": d.flag()} | d.given(bias=lambda: d.normal(EXPERTS, dtype=dtype))
    return (d.normal(tokens, EXPERTS, dtype=dtype), d.choice(1, 2)), how


@call("npu_moe_gating_top_k_softmax", "npu_moe_gating_top_k_softmax_v2")
def gating_top_k_softmax(d: Draw) -> Call:
    batch = d.sizes(1, 2)
    finished = d.given(finished=lambda: d.integers(0, 2, *batch).bool())
    return (d.normal(*batch, EXPERTS, dtype=d.dtype()),), finished | {"k": d.size(1, 4)}


@call("npu_moe_finalize_routing")
def finalize_routing(d: Draw) -> Call:
    tokens, k, n, mode = d.rows(), d.size(1, 3), d.size(), d.choice(0, 1, 2, 3)
    padded = mode in (1, 3)
    rows = d.normal(EXPERTS, d.size(), n) if padded else d.normal(tokens * k, n)
    places = d.integers(-1, max(rows.numel() // n, 1), tokens * k, dtype=torch.int32) if padded else order(tokens * k)
    skips = d.maybe(lambda: d.normal(tokens, n)), None
    bias, scales = d.maybe(lambda: d.normal(EXPERTS, n)), d.maybe(lambda: d.normal(tokens, k))
    return (rows, *skips, bias, scales, places, experts_of(d, tokens, k)), {"drop_pad_mode": mode, "k": k}


@call("npu_moe_token_permute")
def token_permute(d: Draw) -> Call:
    tokens, k = d.size(), d.size(1, 3)
    kept = d.given(num_out_tokens=lambda: d.size(1, tokens * k))
    return (d.normal(tokens, d.size(), dtype=d.dtype()), d.integers(0, EXPERTS, tokens, k)), kept


@call("npu_moe_token_unpermute")
def token_unpermute(d: Draw) -> Call:
    tokens, k, n, dtype = d.rows(), d.size(1, 3), d.size(), d.dtype()
    places = order(tokens * k)
    return (d.normal(tokens * k, n, dtype=dtype), places, d.maybe(lambda: d.normal(tokens, k, dtype=dtype))), {}


@call("npu_moe_re_routing")
def re_routing(d: Draw) -> Call:
    ranks, experts, n = d.size(), d.size(), d.size()
    tokens = 2 * ranks * experts
    counts = whole([[d.size(0, 2) for _ in range(experts)] for _ in range(ranks)]).int()
    how = {"idx_type": d.choice(0, 1), "expert_token_num_type": d.choice(0, 1)}
    return (d.int8(tokens, n), counts), how | d.given(per_token_scales=lambda: d.positive(tokens))


@call("npu_moe_compute_expert_tokens")
def compute_expert_tokens(d: Draw) -> Call:
    return (whole(sorted(d.size(0, EXPERTS - 1) for _ in range(d.size(1, 8)))).int(), EXPERTS), {}
