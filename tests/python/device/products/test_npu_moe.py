# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/moe, against loops over tokens."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import (
    FLOATING,
    check,
    check_fake,
    check_gradient,
    check_refused,
    integers,
    normal,
)


def best(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Returns the places of the k greatest values of each row. Equal values keep their order."""
    rows = [sorted(range(len(row)), key=lambda i, row=row: (-row[i], i))[:k] for row in scores.flatten(0, -2).tolist()]
    return torch.tensor(rows).reshape(*scores.shape[:-1], k)


def groups_kept(choice, groups, keep, summed):
    out = choice.clone()
    for row in out:
        parts = row.view(groups, -1)
        order = sorted(range(groups), key=lambda g, parts=parts: (-parts[g].topk(summed).values.sum().item(), g))
        for g in order[keep:]:
            parts[g] = -torch.inf
    return out


def gating_top_k(
    x,
    k,
    bias=None,
    input_ids=None,
    tid2eid=None,
    k_group=1,
    group_count=1,
    group_select_mode=0,
    renorm=0,
    norm_type=0,
    out_flag=False,
    routed_scaling_factor=1.0,
    eps=1e-20,
):
    score = x.softmax(-1) if norm_type == 0 else x.sigmoid()
    choice = score if bias is None else score + bias
    experts = best(groups_kept(choice.detach(), group_count, k_group, 1 + group_select_mode), k)
    if input_ids is not None:
        experts = tid2eid[input_ids].long()
    y = score.gather(1, experts)
    if renorm or norm_type:
        y = y / (y.sum(1, keepdim=True) + eps)
    return y * routed_scaling_factor, experts, score


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("norm_type", [0, 1])
def test_gating_top_k(dtype: torch.dtype, norm_type: int) -> None:
    args = (normal(5, 16, dtype=dtype), 3)
    bias = normal(16, dtype=dtype, seed=1)
    check(torch_npu.npu_moe_gating_top_k, args, gating_top_k, norm_type=norm_type)
    groups = {"k_group": 2, "group_count": 4, "group_select_mode": 1, "routed_scaling_factor": 2.5, "eps": 1e-9}
    check(torch_npu.npu_moe_gating_top_k, args, gating_top_k, bias=bias, norm_type=norm_type, **groups)


def test_gating_top_k_of_groups_by_their_greatest() -> None:
    kwargs = {"k_group": 2, "group_count": 4, "renorm": 1, "out_flag": True}
    check(torch_npu.npu_moe_gating_top_k, (normal(5, 16), 4), gating_top_k, **kwargs)


def test_gating_top_k_takes_the_first_of_equal_experts() -> None:
    check(torch_npu.npu_moe_gating_top_k, (torch.zeros(3, 64), 5), gating_top_k)


def test_gating_top_k_by_token() -> None:
    table = torch.tensor([[0, 3], [2, 1], [3, 2]], dtype=torch.int32)
    check(
        torch_npu.npu_moe_gating_top_k,
        (normal(4, 4), 2),
        gating_top_k,
        input_ids=torch.tensor([2, 0, 1, 2]),
        tid2eid=table,
        norm_type=1,
    )


@pytest.mark.parametrize("norm_type", [0, 1])
@pytest.mark.parametrize("renorm", [0, 1])
def test_gradient_of_gating_top_k(norm_type: int, renorm: int) -> None:
    kwargs = {"norm_type": norm_type, "renorm": renorm, "routed_scaling_factor": 1.5}
    x, grad = normal(4, 8), normal(4, 2, seed=1)
    check_gradient(torch_npu.npu_moe_gating_top_k, (x, 2), gating_top_k, **kwargs)

    def backward(x_norm, grad, experts, **kwargs):
        leaf = x.double().requires_grad_()
        gating_top_k(leaf, 2, **kwargs)[0].backward(grad)
        return leaf.grad

    _, experts, score = torch_npu.npu_moe_gating_top_k(x, 2, **kwargs)
    check(torch_npu.npu_moe_gating_top_k_backward, (score, grad, experts), backward, **kwargs)


def gating_softmax(x, finished=None, k=1):
    score = x.softmax(-1)
    experts = best(score, k)
    rows = experts.numel() // k
    row_idx = torch.tensor([[j * rows + i for j in range(k)] for i in range(rows)]).reshape(experts.shape)
    weight = score.gather(-1, experts)
    if finished is not None:
        experts[finished] = x.shape[-1]
    return weight, experts, row_idx


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8)])
def test_gating_top_k_softmax(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = normal(*shape, dtype=dtype)
    finished = integers(0, 2, *shape[:-1]).bool()
    check(torch_npu.npu_moe_gating_top_k_softmax, (x,), gating_softmax, k=2)
    check(torch_npu.npu_moe_gating_top_k_softmax, (x, finished), gating_softmax, k=3)


@pytest.mark.parametrize(("renorm", "output_softmax"), [(0, False), (0, True), (1, True)])
def test_gating_top_k_softmax_v2(renorm: int, output_softmax: bool) -> None:
    def reference(x, k, finished, renorm, output_softmax):
        weight, experts, _ = gating_softmax(x, finished, k)
        if renorm:
            return x.gather(-1, best(x, k)).softmax(-1), experts, torch.empty(0)
        return weight, experts, x.softmax(-1) if output_softmax else torch.empty(0)

    kwargs = {"k": 3, "finished": integers(0, 2, 5).bool(), "renorm": renorm, "output_softmax": output_softmax}
    check(torch_npu.npu_moe_gating_top_k_softmax_v2, (normal(5, 8),), reference, **kwargs)


@pytest.mark.parametrize("is_norm", [True, False])
def test_fused_add_topk_div(is_norm: bool) -> None:
    def reference(x, add_num, group_num, group_topk, n, k, is_norm, scale):
        score = x.sigmoid()
        experts = best(groups_kept(score + add_num, group_num, group_topk, n), k)
        y = score.gather(1, experts)
        return (y / y.sum(1, keepdim=True) * scale if is_norm else y), experts

    kwargs = {"group_num": 4, "group_topk": 2, "n": 2, "k": 3, "is_norm": is_norm, "scale": 2.5}
    args = (normal(5, 16, dtype=torch.float16), normal(16, seed=1, dtype=torch.float16))
    check(torch_npu.npu_fused_add_topk_div, args, reference, **kwargs)

    def into(x, add_num, *, y, indices, **kwargs):
        for out, value in zip((y, indices), reference(x, add_num, **kwargs), strict=True):
            out.copy_(value)
        return y, indices

    out = {"y": torch.empty(5, 3), "indices": torch.empty(5, 3, dtype=torch.int32)}
    check(torch.ops.atb.npu_fused_add_topk_div.out, args, into, **kwargs, **out)


def test_copies_of_experts_take_turns() -> None:
    args = (normal(7, 8), normal(8, seed=1))
    number = integers(1, 4, 8, dtype=torch.int32, seed=2)
    table = torch.arange(100, 100 + 8 * 3, dtype=torch.int32).view(8, 3)
    kwargs = {"group_num": 4, "group_topk": 2, "n": 2, "k": 3, "scale": 2.5}
    op = torch_npu.npu_fused_add_topk_div
    weights, experts = op(*args, **kwargs)

    def reference(*_, mapping_num, mapping_table, **__):
        copies = [[mapping_table[e, i % mapping_num[e]] for e in row] for i, row in enumerate(experts)]
        return weights, torch.tensor(copies)

    mapping = {"mapping_num": number, "mapping_table": table}
    check(op, args, reference, **kwargs, **mapping, enable_expert_mapping=True)
    assert torch.equal(op(*args, **kwargs, **mapping)[1], experts)
    name = "npu_fused_add_topk_div"
    message = "enable_expert_mapping needs mapping_num and mapping_table"
    check_refused(name, message, *args, **kwargs, mapping_num=number, enable_expert_mapping=True)
    message = "mapping_num and mapping_table have 8 and 7 rows, and not one for each of 8 experts"
    mapping["mapping_table"] = table[:7]
    check_refused(name, message, *args, **kwargs, **mapping, enable_expert_mapping=True)


def init_routing(x, row_idx, expert_idx, active_num):
    n, k = expert_idx.shape
    pairs = sorted(zip(expert_idx.flatten().tolist(), range(n * k), row_idx.flatten().tolist(), strict=True))
    places = [0] * (n * k)
    for i, (_, _, row) in enumerate(pairs):
        places[row] = i
    rows = [x[row % n] for _, _, row in pairs][: min(active_num, n) * k]
    return torch.stack(rows), torch.tensor(places), torch.tensor([e for e, _, _ in pairs])


@pytest.mark.parametrize("active_num", [3, 10])
def test_init_routing(active_num: int) -> None:
    row_idx = torch.arange(12, dtype=torch.int32).view(2, 6).t().contiguous()
    args = (normal(6, 8), row_idx, integers(0, 4, 6, 2, dtype=torch.int32), active_num)
    check(torch_npu.npu_moe_init_routing, args, init_routing)


def routed(expert_idx, low, high, capacity=None):
    """Returns rows as (expert, pair) or None, active pairs in order. With a capacity, each expert has that many
    rows."""
    pairs = sorted((e, i) for i, e in enumerate(expert_idx.flatten().tolist()) if low <= e < high)
    if capacity is None:
        return pairs + [None] * (expert_idx.numel() - len(pairs))
    table = [[pair for pair in pairs if pair[0] == e][:capacity] for e in range(low, high)]
    return [row for part in table for row in part + [None] * (capacity - len(part))]


def int8_rows(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / torch.where(scale == 0, 1, scale)).round(), scale.squeeze(-1)


def init_routing_v2(
    x,
    expert_idx,
    scale=None,
    offset=None,
    active_num=-1,
    expert_capacity=-1,
    expert_num=-1,
    drop_pad_mode=0,
    expert_tokens_num_type=0,
    expert_tokens_num_flag=False,
    quant_mode=-1,
    active_expert_range=(),
    row_idx_type=0,
):
    low, high = active_expert_range or (0, expert_num)
    k = expert_idx.shape[1]
    rows = routed(expert_idx, low, high, expert_capacity if drop_pad_mode else None)
    places = torch.full((expert_idx.numel(),), -1)
    for i, row in enumerate(rows):
        if row is not None:
            places[row[1]] = i
    if row_idx_type == 1:
        ids = expert_idx.flatten().tolist()  # ids below the range come last, in their order
        places = torch.tensor(sorted(range(len(ids)), key=lambda i: (ids[i] < low, max(ids[i], low), i)))
    rows = rows[:active_num] if active_num > 0 and not drop_pad_mode else rows
    nothing = torch.zeros_like(x[0])
    expanded = torch.stack([nothing if row is None else x[row[1] // k] for row in rows])
    scales = torch.empty(0)
    if quant_mode == 0:
        expanded = torch.stack(
            [
                0 * nothing if row is None else (expanded[i] * scale + offset).round().clamp(-128, 127)
                for i, row in enumerate(rows)
            ]
        )
    elif quant_mode == 1:
        if scale is not None:
            factor = [scale[0] if row is None or len(scale) == 1 else scale[row[0] - low] for row in rows]
            expanded = expanded * torch.stack(factor)
        expanded, scales = int8_rows(expanded)
    elif scale is not None:
        scales = torch.tensor([0.0 if row is None else scale[row[1] // k].item() for row in rows])
    if drop_pad_mode:
        expanded = expanded.view(high - low, expert_capacity, -1)
    counts = torch.tensor([(expert_idx == e).sum() for e in range(low, high)])
    if expert_tokens_num_type == 0:
        counts = counts.cumsum(0)
    elif expert_tokens_num_type == 2:
        used = [(e + low, n) for e, n in enumerate(counts.tolist()) if n]
        counts = torch.tensor(used + [(0, 0)] * (max(expert_num, high - low) - len(used)))
    return expanded, places, counts, scales


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    "kwargs",
    [
        {"expert_num": 8, "expert_tokens_num_type": 1},
        {"expert_num": 8, "active_expert_range": [2, 5], "row_idx_type": 1},
        {"expert_num": 8, "active_expert_range": [3, 5], "row_idx_type": 1, "active_num": 4, "quant_mode": 1},
        {"expert_num": 8, "active_expert_range": [2, 7], "expert_tokens_num_type": 2, "active_num": 5},
        {"expert_num": 8, "drop_pad_mode": 1, "expert_capacity": 2, "expert_tokens_num_type": 1},
        {"expert_num": 8, "quant_mode": 1, "active_expert_range": [1, 6]},
        {"expert_num": 8, "quant_mode": 1, "drop_pad_mode": 1, "expert_capacity": 3},
    ],
)
def test_init_routing_v2(dtype: torch.dtype, kwargs: dict) -> None:
    x, experts = normal(7, 6, dtype=dtype), integers(0, 8, 7, 2, dtype=torch.int32)
    check(torch_npu.npu_moe_init_routing_v2, (x, experts), init_routing_v2, **kwargs)


def test_scales_of_init_routing_v2() -> None:
    x, experts = normal(7, 6), integers(0, 8, 7, 2, dtype=torch.int32)
    run = torch_npu.npu_moe_init_routing_v2
    per_token, per_expert = normal(7, seed=1), normal(4, 6, seed=2)
    check(run, (x, experts), init_routing_v2, scale=per_token, expert_num=8, active_expert_range=[2, 6])
    check(run, (x, experts), init_routing_v2, scale=per_expert, quant_mode=1, expert_num=8, active_expert_range=[2, 6])
    check(run, (x, experts), init_routing_v2, scale=per_expert[:1], quant_mode=1, expert_num=8)
    static = {"scale": torch.tensor([30.0]), "offset": torch.tensor([5.0]), "quant_mode": 0, "expert_num": 8}
    check(run, (x, experts), init_routing_v2, **static, active_expert_range=[0, 3])


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_init_routing_quant(mode: int) -> None:
    def reference(x, experts, *, expert_tokens_num_mode=0, expert_tokens_before_capacity_flag=False, **kwargs):
        rows, places, counts, scales = init_routing_v2(x, experts, expert_tokens_num_type=1, **kwargs)
        none, drops = torch.empty(0), kwargs.get("drop_pad_mode")
        plain = none if drops or mode == 0 else counts.cumsum(0) if mode == 1 else counts
        return rows, places, plain, counts if drops and expert_tokens_before_capacity_flag else none, scales

    args = (normal(7, 6), integers(0, 8, 7, 2, dtype=torch.int32))
    common = {"expert_num": 8, "quant_mode": 1, "expert_tokens_num_mode": mode, "active_num": 9}
    check(torch_npu.npu_moe_init_routing_quant, args, reference, **common)
    drops = {"drop_pad_mode": 1, "expert_capacity": 2, "expert_tokens_before_capacity_flag": True}
    check(torch_npu.npu_moe_init_routing_quant, args, reference, **common, **drops)


def finalize_routing(rows, skip1, skip2, bias, scales, row_idx, experts, drop_pad_mode=0, k=1):
    k = k if scales is None else scales.shape[1]
    tokens = row_idx.numel() // k
    flat = rows.flatten(0, -2)
    out = torch.zeros(tokens, rows.shape[-1], dtype=rows.dtype)
    for i in range(tokens):
        for j in range(k):
            place = int(row_idx[j * tokens + i if drop_pad_mode < 2 else i * k + j])
            row = torch.zeros_like(flat[0]) if place < 0 else flat[place]
            row = row if bias is None else row + bias[experts[i, j]]
            out[i] += row if scales is None else row * scales[i, j]
    return out + (0 if skip1 is None else skip1) + (0 if skip2 is None else skip2)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_finalize_routing(mode: int) -> None:
    k, tokens = 2, 5
    padded = mode in (1, 3)
    rows = normal(4, 3, 8) if padded else normal(tokens * k, 8)
    row_idx = integers(-1, 12, tokens * k) if padded else torch.randperm(tokens * k)
    experts = integers(0, 4, tokens, k, dtype=torch.int32)
    full = (normal(tokens, 8, seed=1), normal(tokens, 8, seed=2), normal(4, 8, seed=3), normal(tokens, k, seed=4))
    args = (rows, *full, row_idx.int(), experts)
    check(torch_npu.npu_moe_finalize_routing, args, finalize_routing, drop_pad_mode=mode)
    none = (rows, None, None, None, None, row_idx.int(), None)
    check(torch_npu.npu_moe_finalize_routing, none, finalize_routing, drop_pad_mode=mode)
    check(torch_npu.npu_moe_finalize_routing, none, finalize_routing, drop_pad_mode=mode, k=2)


def test_rows_of_weight_zero_may_hold_anything() -> None:
    rows, weights, places = normal(6, 4), normal(3, 2, seed=1), torch.randperm(6).int()
    rows[places[1]], rows[places[4]] = torch.nan, torch.inf
    weights.view(-1)[[1, 4]] = 0
    of_finite_rows = lambda op: lambda rows, *rest: op(rows.nan_to_num(0, 0), *rest)  # noqa: E731
    check(torch_npu.npu_moe_token_unpermute, (rows, places, weights), of_finite_rows(token_unpermute))
    args = (rows, None, None, None, weights, places.view(3, 2).t().reshape(-1), None)
    check(torch_npu.npu_moe_finalize_routing, args, of_finite_rows(finalize_routing))


def test_gradient_of_finalize_routing() -> None:
    args = (normal(6, 4), normal(3, 4, seed=1), None, None, normal(3, 2, seed=2), torch.randperm(6).int(), None)
    check_gradient(torch_npu.npu_moe_finalize_routing, args, finalize_routing)


@pytest.mark.parametrize("idx_type", [0, 1])
@pytest.mark.parametrize("with_scales", [False, True])
def test_re_routing(idx_type: int, with_scales: bool) -> None:
    counts = torch.tensor([[2, 0, 3], [1, 4, 0]], dtype=torch.int32)

    def reference(tokens, counts, per_token_scales=None, expert_token_num_type=1, idx_type=0):
        starts = [0, *counts.flatten().cumsum(0).tolist()]
        chunk = lambda r, e: range(starts[3 * r + e], starts[3 * r + e + 1])  # noqa: E731
        order = torch.tensor([i for e in range(3) for r in range(2) for i in chunk(r, e)] + [10, 11])
        scales = torch.ones(12) if per_token_scales is None else per_token_scales[order]
        sums = counts.sum(0) if expert_token_num_type else counts.sum(0).cumsum(0)
        return tokens[order], scales, order if idx_type == 0 else order.argsort(), sums

    scales = normal(12, seed=1) if with_scales else None
    for kind in (0, 1):
        kwargs = {"per_token_scales": scales, "idx_type": idx_type, "expert_token_num_type": kind}
        check(torch_npu.npu_moe_re_routing, (integers(-128, 128, 12, 4, dtype=torch.int8), counts), reference, **kwargs)


def test_compute_expert_tokens() -> None:
    experts = torch.tensor([0, 0, 2, 2, 2, 3, 5], dtype=torch.int32)
    run = torch_npu.npu_moe_compute_expert_tokens
    check(run, (experts, 6), lambda x, n: torch.tensor([int((x <= e).sum()) for e in range(n)]))


@pytest.mark.parametrize("balance_mode", [0, 1])
def test_update_expert(balance_mode: int) -> None:
    table = torch.tensor([[1, 7, 0, 0], [3, 2, 4, 6], [2, 1, 3, 0]], dtype=torch.int32)
    ids = integers(0, 3, 6, 2, dtype=torch.int32)

    def reference(ids, table, expert_scales=None, pruning_threshold=None, active_mask=None, **_):
        out, active = ids.clone(), torch.ones(ids.shape, dtype=torch.bool)
        for i, row in enumerate(ids.tolist()):
            for j, expert in enumerate(row):
                copies = int(table[expert, 0])
                copy = 3 // -(-8 // copies) if balance_mode == 0 else i % copies
                out[i, j] = table[expert, 1 + copy]
                if expert_scales is not None:
                    active[i, j] = expert_scales[i, j] >= pruning_threshold[j] * expert_scales[i].sum()
                if active_mask is not None and not active_mask[i]:
                    active[i, j] = False
        return out, active

    kwargs = {"local_rank_id": 3, "world_size": 8, "balance_mode": balance_mode}
    check(torch_npu.npu_moe_update_expert, (ids, table), reference, **kwargs)
    prune = {"expert_scales": normal(6, 2).abs(), "pruning_threshold": torch.tensor([0.4, 0.5])}
    active = integers(0, 2, 6).bool()
    check(torch_npu.npu_moe_update_expert, (ids, table), reference, **kwargs, **prune, active_mask=active)


def token_permute(tokens, indices, num_out_tokens=None):
    k = indices.numel() // len(tokens)
    order = sorted(range(indices.numel()), key=lambda i: (indices.flatten()[i].item(), i))
    places = torch.empty(len(order), dtype=torch.int64)
    for place, pair in enumerate(order):
        places[pair] = place
    return torch.stack([tokens[i // k] for i in order[: num_out_tokens or None]]), places


def token_unpermute(permuted, places, probs=None):
    k = 1 if probs is None else probs.shape[1]
    rows = torch.cat([permuted, torch.zeros(len(places) - len(permuted), permuted.shape[1], dtype=permuted.dtype)])
    rows = rows[places.long()].view(-1, k, permuted.shape[1])
    return (rows if probs is None else rows * probs.unsqueeze(-1)).sum(1)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("num_out_tokens", [None, 0, 7, -3])
def test_token_permute(dtype: torch.dtype, num_out_tokens: int | None) -> None:
    tokens, indices = normal(6, 8, dtype=dtype), integers(0, 4, 6, 2)
    run = torch_npu.npu_moe_token_permute
    check(run, (tokens, indices), token_permute, num_out_tokens=num_out_tokens)
    check(run, (tokens, indices[:, 0].contiguous()), token_permute)


@pytest.mark.parametrize("rows", [12, 7])
def test_token_unpermute(rows: int) -> None:
    permuted, probs = normal(rows, 8), normal(6, 2, seed=1)
    places = torch.randperm(12, generator=torch.Generator().manual_seed(0)).int()
    for run in (torch_npu.npu_moe_token_unpermute, torch.ops.npu._npu_moe_token_unpermute):
        saves = run is not torch_npu.npu_moe_token_unpermute

        def reference(permuted, places, probs=None, saves=saves):
            out = token_unpermute(permuted, places, probs)
            return (out, permuted if probs is not None else torch.empty(0)) if saves else out

        check(run, (permuted, places, probs), reference)
        check(run, (permuted, places), reference)


@pytest.mark.parametrize("rows", [12, 7])
def test_gradients_of_permutations(rows: int) -> None:
    tokens, indices, probs = normal(6, 8), integers(0, 4, 6, 2), normal(6, 2, seed=1)
    permuted, places = torch_npu.npu_moe_token_permute(tokens, indices, rows)
    check_gradient(torch_npu.npu_moe_token_permute, (tokens, indices, rows), token_permute)
    check_gradient(torch_npu.npu_moe_token_unpermute, (permuted, places, probs), token_unpermute)

    def permute_grad(grad):
        leaf = tokens.double().requires_grad_()
        token_permute(leaf, indices, rows)[0].backward(grad)
        return leaf.grad

    grad = normal(rows, 8, seed=2)
    run = torch_npu.npu_moe_token_permute_grad
    check(run, (tokens, grad, indices, places), lambda t, g, i, p: permute_grad(g))
    run = torch_npu.npu_moe_token_permute_grad_v2
    check(run, (grad, places, 6, torch.float32, 2), lambda g, *_: permute_grad(g))

    def unpermute_grad(permuted, grad, probs):
        leaves = [x.requires_grad_() for x in (permuted, probs) if x is not None]
        token_unpermute(permuted, places, probs).backward(grad)
        return *(x.grad for x in leaves), *([None] if probs is None else [])

    for weights in (probs, None):
        grad = normal(6 if weights is not None else 12, 8, seed=3)
        run = torch_npu.npu_moe_token_unpermute_grad
        check(run, (permuted, grad, places, weights), lambda p, g, _, w: unpermute_grad(p, g, w))
        run = torch_npu.npu_moe_token_unpermute_grad_v2
        args = (grad, places, rows, torch.float32, weights)
        check(
            run,
            args,
            lambda g, i, n, d, w, permuted_tokens: unpermute_grad(permuted_tokens, g, w),
            permuted_tokens=permuted,
        )


def test_what_has_no_probs_has_no_gradient_of_them() -> None:
    permuted, places = torch_npu.npu_moe_token_permute(normal(6, 8), integers(0, 4, 6, 2))
    map = routing_map(6, 4, 2)
    _, _, indices = torch_npu.npu_moe_token_permute_with_routing_map(normal(6, 8), map, num_out_tokens=12)
    calls = [
        lambda p, i, m, r: torch_npu.npu_moe_token_unpermute_grad(p, p, i),
        lambda p, i, m, r: torch_npu.npu_moe_token_unpermute_grad_v2(p, i, 12, torch.float32),
        lambda p, i, m, r: torch_npu.npu_moe_token_permute_with_routing_map_grad(p, None, r, m, 4, 6, False),
        lambda p, i, m, r: torch_npu.npu_moe_token_unpermute_with_routing_map_grad(
            p[:6], r, r // 2, None, None, None, False, [6, 8]
        ),
    ]
    arguments = [x.npu() for x in (permuted, places, map, indices)]
    for call in calls:
        for run in (call, torch.compile(call, backend="npugraph_ex", fullgraph=True)):
            torch._dynamo.reset()
            with torch.no_grad():
                rows, of_probs = run(*arguments)
            assert rows.shape[1] == 8 and of_probs is None


def routing_map(tokens: int, experts: int, k: int) -> torch.Tensor:
    out = torch.zeros(tokens, experts, dtype=torch.bool)
    for i in range(tokens):
        out[i, torch.randperm(experts, generator=torch.Generator().manual_seed(i))[:k]] = True
    return out


def map_pairs(map, rows, pads):
    """Returns (token, expert) of each row."""
    tokens, experts = map.shape
    if not pads:
        return [(t, e) for e in range(experts) for t in range(tokens) if map[t, e]]
    by_use = lambda e: sorted(range(tokens), key=lambda t: (not map[t, e], t))  # noqa: E731
    return [(t, e) for e in range(experts) for t in by_use(e)[: rows // experts]]


def map_permute(tokens, map, probs=None, num_out_tokens=None, drop_and_pad=False):
    pairs = map_pairs(map, num_out_tokens, drop_and_pad)
    token = torch.tensor([t for t, _ in pairs])
    weights = torch.empty(0) if probs is None else torch.stack([probs[t, e] for t, e in pairs])
    return tokens[token], weights, token if drop_and_pad else token.argsort(stable=True)


def map_unpermute(permuted, indices, shape, probs=None, routing_map=None, drop_and_pad=False):
    pairs = map_pairs(routing_map, len(permuted), drop_and_pad)
    out = torch.zeros(shape, dtype=permuted.dtype)
    for i, (t, e) in enumerate(pairs):
        out = out.index_add(0, torch.tensor([t]), permuted[i : i + 1] * (1 if probs is None else probs[t, e]))
    return out


@pytest.mark.parametrize("drop_and_pad", [False, True])
def test_permutation_by_a_map(drop_and_pad: bool) -> None:
    tokens, map, probs = normal(6, 8), routing_map(6, 4, 2), normal(6, 4, seed=1)
    common = {"num_out_tokens": 12, "drop_and_pad": drop_and_pad}
    permute, unpermute = (
        torch_npu.npu_moe_token_permute_with_routing_map,
        torch_npu.npu_moe_token_unpermute_with_routing_map,
    )
    check(permute, (tokens, map), map_permute, probs=probs, **common)
    check(permute, (tokens, map.to(torch.int8)), map_permute, **common)
    check_gradient(
        lambda t, p: permute(t, map.npu(), probs=p, **common),
        (tokens, probs),
        lambda t, p: map_permute(t, map, p, **common),
    )
    permuted, _, indices = permute(tokens, map, **common)
    kwargs = {"routing_map": map, "drop_and_pad": drop_and_pad}
    check(unpermute, (permuted, indices, [6, 8]), map_unpermute, **kwargs)
    check(unpermute, (permuted, indices, [6, 8]), map_unpermute, probs=probs, **kwargs)


@pytest.mark.parametrize("drop_and_pad", [False, True])
def test_gradients_of_permutation_by_a_map(drop_and_pad: bool) -> None:
    tokens, map, probs = normal(6, 8), routing_map(6, 4, 2), normal(6, 4, seed=1)
    common = {"num_out_tokens": 12, "drop_and_pad": drop_and_pad}
    permuted, weights, indices = torch_npu.npu_moe_token_permute_with_routing_map(tokens, map, probs=probs, **common)
    grad, grad_weights = normal(12, 8, seed=2), normal(12, seed=3)

    def permute_grad(grad, grad_weights, *_):
        leaves = tokens.double().requires_grad_(), probs.double().requires_grad_()
        out = map_permute(leaves[0], map, leaves[1], **common)
        ((out[0] * grad).sum() + (out[1] * grad_weights).sum()).backward()
        return leaves[0].grad, leaves[1].grad

    run = torch_npu.npu_moe_token_permute_with_routing_map_grad
    check(run, (grad, grad_weights, indices, map, 4, 6, drop_and_pad), permute_grad)

    run = torch.ops.npu._npu_moe_token_unpermute_with_routing_map
    out, out_index, token, of_rows = run(
        permuted, indices, [6, 8], probs=probs, routing_map=map, drop_and_pad=drop_and_pad
    )
    assert torch.equal(
        out,
        torch_npu.npu_moe_token_unpermute_with_routing_map(
            permuted, indices, [6, 8], probs=probs, routing_map=map, drop_and_pad=drop_and_pad
        ),
    )
    assert torch.equal(of_rows, weights)
    assert token.diff().min() >= 0
    assert torch.equal(permuted[out_index.long()], tokens[token.long()])

    def unpermute_grad(grad, *_):
        leaves = permuted.double().requires_grad_(), probs.double().requires_grad_()
        map_unpermute(leaves[0], indices, (6, 8), leaves[1], map, drop_and_pad).backward(grad)
        return leaves[0].grad, leaves[1].grad

    run = torch_npu.npu_moe_token_unpermute_with_routing_map_grad
    grad = normal(6, 8, seed=4)
    check(run, (grad, out_index, token, map, permuted, probs, drop_and_pad, [6, 8]), unpermute_grad)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch_npu.npu_moe_gating_top_k(normal(2, 8), 9), r"npu_moe_gating_top_k: k is 9, allowed are 1 to 8"),
        (lambda: torch_npu.npu_moe_gating_top_k(normal(2, 8), 2, norm_type=2), r"norm_type is 2, allowed are \[0, 1\]"),
        (
            lambda: torch_npu.npu_moe_gating_top_k(normal(2, 8), 2, group_count=3),
            r"npu_moe_gating_top_k: 8 experts are not 3 equal groups",
        ),
        (
            lambda: torch_npu.npu_moe_gating_top_k(normal(2, 8), 2, group_count=4, k_group=5),
            r"npu_moe_gating_top_k: 5 of 4 groups are to be kept",
        ),
        (
            lambda: torch_npu.npu_moe_gating_top_k(normal(2, 8), 2, input_ids=torch.tensor([0, 1])),
            r"npu_moe_gating_top_k: input_ids and tid2eid are given together or not at all",
        ),
        (
            lambda: torch_npu.npu_moe_init_routing_v2(normal(2, 8), integers(0, 4, 3, 2)),
            r"npu_moe_init_routing_v2: expert_idx has 3 rows, x has 2",
        ),
        (
            lambda: torch_npu.npu_moe_init_routing_v2(normal(2, 8), integers(0, 4, 2, 2)),
            r"npu_moe_init_routing_v2: the experts are those of \[0, -1\), which are none",
        ),
        (
            lambda: torch_npu.npu_moe_init_routing_v2(
                normal(2, 8), integers(0, 4, 2, 2), expert_num=4, drop_pad_mode=1
            ),
            r"expert_capacity is -1, but drop_pad_mode 1 asks for a positive one",
        ),
        (
            lambda: torch_npu.npu_moe_token_permute(normal(2, 8), integers(0, 4, 2), padded_mode=True),
            r"npu_moe_token_permute: padded_mode is True, allowed is False",
        ),
        (
            lambda: torch_npu.npu_moe_token_permute_with_routing_map(normal(2, 8), routing_map(2, 4, 1)),
            r"num_out_tokens, the number of pairs of routing_map, is to be given as a positive number",
        ),
        (
            lambda: torch_npu.npu_fused_add_topk_div(normal(2, 8), normal(8), activation_type="relu"),
            r'npu_fused_add_topk_div: activation_type is "relu", allowed is "activation_sigmoid"',
        ),
        (
            lambda: torch_npu.npu_fused_add_topk_div(normal(2, 16), normal(16), group_num=4, n=5),
            r"npu_fused_add_topk_div: n is 5, but a group has 4 experts",
        ),
        (
            lambda: torch_npu.npu_moe_update_expert(integers(0, 3, 2, 2), integers(0, 3, 3, 3)),
            r"local_rank_id -1 of world_size -1, but balance_mode 0 asks for 0 <= local_rank_id < world_size",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize("quant_mode", [-1, 1])
def test_a_table_of_no_tokens(quant_mode: int) -> None:
    how = {"expert_num": 8, "drop_pad_mode": 1, "expert_capacity": 2, "expert_tokens_num_type": 1}
    args = normal(0, 6).npu(), integers(0, 8, 0, 2, dtype=torch.int32).npu()
    rows, places, counts, scale = torch_npu.npu_moe_init_routing_v2(*args, quant_mode=quant_mode, **how)
    assert (rows.shape, places.shape, counts.tolist()) == ((8, 2, 6), (0,), [0] * 8)
    assert not rows.cpu().any() and not scale.cpu().any()


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_routing_of_no_tokens(kind: int) -> None:
    args = normal(0, 6), integers(0, 8, 0, 2, dtype=torch.int32)
    static = {"quant_mode": 0, "scale": torch.ones(1), "offset": torch.ones(1)}
    for how in ({}, {"quant_mode": 1}, static, {"scale": torch.ones(0)}):
        given = {"expert_num": 8, "expert_tokens_num_type": kind, "active_expert_range": [2, 6], **how}
        real = torch_npu.npu_moe_init_routing_v2(*args, **given)
        assert (real[0].shape, real[1].shape) == ((0, 6), (0,)) and not real[2].any()
        check_fake(torch_npu.npu_moe_init_routing_v2, args, given, real, dynamic=False)
