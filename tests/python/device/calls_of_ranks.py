# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of products and experts that ranks share, in a group of one rank."""

from __future__ import annotations

import torch
import torch_npu

from tests.python.device.drawn_calls import Call, Draw, call

GROUP, EXPERTS = "hcom", 4  # no process group has this name


@call("npu_mm_all_reduce_base")
def mm_all_reduce(d: Draw) -> Call:
    before, m, k, n = d.choice((), (d.size(),)), d.size(), d.size(), d.size()
    if d.flag():
        how = d.given(
            bias=lambda: d.integers(-99, 99, n, dtype=torch.int32), pertoken_scale=lambda: d.positive(m), comm_turn=int
        )
        before = () if "pertoken_scale" in how else before
        return (d.int8(*before, m, k), d.int8(k, n), GROUP), how | {"dequant_scale": d.positive(n)}
    dtype = d.dtype()
    how = d.given(bias=lambda: d.normal(n, dtype=dtype), x3=lambda: d.normal(*before, m, n, dtype=dtype))
    return (d.normal(*before, m, k, dtype=dtype), d.normal(k, n, dtype=dtype), GROUP), how


@call("npu_mm_reduce_scatter_base", "npu_all_gather_base_mm")
def product_of_one(d: Draw) -> Call:
    m, k, n, dtype = d.size(), d.size(), d.size(), d.dtype()
    how = d.given(bias=lambda: d.normal(n, dtype=dtype))
    return (d.normal(m, k, dtype=dtype), d.normal(k, n, dtype=dtype), GROUP, 1), how


@call("npu_moe_distribute_dispatch_v2")
def dispatch(d: Draw) -> Call:
    tokens, k, dtype = d.size(), d.size(1, 3), d.choice(torch.float16, torch.bfloat16)
    how = d.given(
        x_active_mask=lambda: d.integers(0, 2, tokens, dtype=torch.bool),
        expert_scales=lambda: d.normal(tokens, k),
        global_bs=lambda: tokens + d.size(0, 2),
        expert_token_nums_type=lambda: d.choice(0, 1),
        quant_mode=lambda: 2,
    )
    x, ids = d.normal(tokens, 8, dtype=dtype), d.integers(0, EXPERTS, tokens, k, dtype=torch.int32)
    return (x, ids, GROUP, 1, 0, EXPERTS), how


@call("npu_moe_distribute_combine_v2")
def combine(d: Draw) -> Call:
    """Draws a combine of the rows that a drawn dispatch returns."""
    (x, ids, *rest), how = dispatch(d)
    kept = {name: how[name] for name in ("x_active_mask", "global_bs") if name in how}
    rows, _, notes, _, counts, _, _ = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, *rest, **kept)
    kept |= d.given(shared_expert_x=lambda: d.normal(*x.shape, dtype=x.dtype))
    return (rows, ids, notes, counts, d.normal(*ids.shape), *rest), kept
