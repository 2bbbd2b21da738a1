# SPDX-License-Identifier: Apache-2.0
"""Operators of ``_C_ascend`` for mixtures of experts, dense and quantised."""

from __future__ import annotations

import npugraph_vllm.ascend_c  # noqa: F401
import pytest
import torch

from tests.python.device.npu_operators import check, integers, normal
from tests.python.device.quantised import packed, unpacked

ops = torch.ops._C_ascend
ROWS = [2, 33]
EXPERTS, K, N = 4, 32, 48


def gating(x, k, k_group, group_count, select, renorm, norm_type, out_flag, factor, eps, bias=None):
    """Experts of the greatest score + bias, within the groups of the greatest sum of two."""
    score = x.softmax(-1) if norm_type == 0 else x.sigmoid()
    chosen = score if bias is None else score + bias
    groups = chosen.unflatten(-1, (group_count, -1))
    worth = groups.topk(min(2, groups.shape[-1]), -1).values.sum(-1)
    kept = torch.zeros_like(worth, dtype=torch.bool).scatter(-1, worth.topk(k_group, -1).indices, True)
    experts = groups.masked_fill(~kept.unsqueeze(-1), -torch.inf).flatten(-2).topk(k, -1).indices
    y = score.gather(-1, experts)
    if renorm or norm_type == 1:
        y = y / (y.sum(-1, keepdim=True) + eps)
    return y * factor, experts, None


@pytest.mark.parametrize("rows", ROWS)
def test_gating_is_that_of_the_reference(rows: int) -> None:
    x, bias = normal(rows, 16), normal(16, seed=1) / 10
    check(ops.moe_gating_top_k, (x, 4, 1, 1, 1, 1, 0, False, 1.0, 1e-20), gating)
    check(ops.moe_gating_top_k, (x, 4, 2, 4, 1, 1, 1, False, 2.5, 1e-20, bias), gating, dynamic=False)


def hash_gating(x, k, *, bias=None, input_ids=None, tid2eid=None, bias_vl=None, factor=1.0, first=0, count=0):
    score = torch.nn.functional.softplus(x).sqrt()
    experts = []
    for row, token in zip(score, input_ids.tolist(), strict=True):
        if bias_vl is not None and first <= token < first + count:
            experts.append((row + bias_vl).topk(k).indices)
        else:
            experts.append(tid2eid[token].long() if tid2eid is not None else (row + bias).topk(k).indices)
    experts = torch.stack(experts)
    y = score.gather(-1, experts)
    return y / y.sum(-1, keepdim=True) * factor, experts, None


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("has_table", [True, False])
def test_hash_gating(rows: int, has_table: bool) -> None:
    x, bias, bias_vl, ids = normal(rows, 16), normal(16, seed=1), normal(16, seed=2), integers(0, 10, rows)
    table = integers(0, 16, 10, 3, dtype=torch.int32) if has_table else None
    names = {"factor": "routed_scaling_factor", "first": "image_sentinel_lo", "count": "image_sentinel_count"}

    def reference(x, k, *, group_select_mode, norm_type, **options):
        short = {long: short for short, long in names.items()}
        return hash_gating(x, k, **{short.get(name, name): value for name, value in options.items()})

    options = {"bias": bias, "input_ids": ids, "tid2eid": table, "group_select_mode": 1, "norm_type": 2}
    images = {"bias_vl": bias_vl, "image_sentinel_lo": 3, "image_sentinel_count": 2, "routed_scaling_factor": 1.5}
    check(ops.moe_gating_top_k_hash, (x, 3), reference, dynamic=False, **options, **images)
    check(ops.moe_gating_top_k_hash, (x, 3), reference, dynamic=False, **options)


def routing(x, experts, *, active_num, expert_num, active_expert_range, quant_mode, **_):
    """Rows by experts, of the experts of this rank alone, and what each row is multiplied by."""
    first, end = active_expert_range
    flat = experts.flatten().tolist()
    order = sorted((e, i) for i, e in enumerate(flat) if first <= e < end)
    rows, places = torch.zeros(active_num, x.shape[1]).to(x), torch.full((active_num,), -1)
    for place, (_, pair) in enumerate(order):
        rows[place], places[pair] = x[pair // experts.shape[1]], place
    counts = torch.tensor([flat.count(e) for e in range(first, end)])
    if quant_mode == -1:
        return rows, places, counts, None
    scale = rows.abs().amax(-1) / 127
    return torch.round(rows / scale.unsqueeze(-1)).nan_to_num().to(torch.int8), places, counts, None


@pytest.mark.parametrize("quant_mode", [-1, 1])
@pytest.mark.parametrize("rows", ROWS)
def test_init_routing(rows: int, quant_mode: int) -> None:
    options = {"active_num": rows * 2, "expert_num": 8, "expert_tokens_num_type": 1, "expert_tokens_num_flag": True}
    args = normal(rows, K), integers(0, 8, rows, 2, dtype=torch.int32)
    for places in ([0, 8], [2, 6]):
        options |= {"active_expert_range": places, "quant_mode": quant_mode}
        check(ops.npu_moe_init_routing_custom, args, routing, dynamic=False, compiled=places == [0, 8], **options)


def swiglu(x, limit=0.0):
    a, b = x.chunk(2, -1)
    if limit > 0:
        a, b = a.clamp_max(limit), b.clamp(-limit, limit)
    return torch.nn.functional.silu(a) * b


def quantised(x):
    scale = x.abs().amax(-1) / 127
    return torch.round(x / scale.unsqueeze(-1)).to(torch.int8), scale


def grouped(x, weight, weight_scale, x_scale, ends, limit=0.0):
    """Rows of each group times the weight of its expert, gated and quantised."""
    sums, start = torch.zeros(len(x), N, dtype=torch.float64), 0
    for expert, end in enumerate(ends.tolist()):
        product = x[start:end].double() @ weight[expert].double()
        sums[start:end] = product * weight_scale[expert].flatten() * x_scale[start:end].view(-1, 1)
        start = end
    return (*quantised(swiglu(sums, limit)), torch.empty(0))


def grouped_arguments(rows: int) -> tuple[torch.Tensor, ...]:
    x, weight = integers(-127, 128, rows, K, dtype=torch.int8), integers(-127, 128, EXPERTS, K, N, dtype=torch.int8)
    ends = torch.tensor([0, rows // 2, rows // 2 + 1, rows])
    return x, weight, normal(EXPERTS, N, seed=1).abs() / 50, normal(rows, seed=2).abs() / 50, ends


@pytest.mark.parametrize("limit", [0.0, 2.0])
@pytest.mark.parametrize("rows", ROWS)
def test_grouped_swiglu(rows: int, limit: float) -> None:
    args = grouped_arguments(rows)

    def reference(*args, swiglu_limit=0.0):
        return grouped(*args, swiglu_limit)

    for op in (ops.grouped_matmul_swiglu_quant, ops.grouped_matmul_swiglu_quant_weight_nz):
        check(op, args, reference, dynamic=False, whole=True, swiglu_limit=limit)
    x, weight, scales, x_scale, ends = args
    lists = x, list(weight), list(scales), x_scale, ends
    op = ops.grouped_matmul_swiglu_quant_weight_nz_tensor_list
    check(op, lists, reference, dynamic=False, whole=True, swiglu_limit=limit)
    one = x, [weight], [scales], x_scale, ends

    def of_one(x, weight, scales, *rest, **options):
        return reference(x, weight[0], scales[0], *rest, **options)

    check(op, one, of_one, dynamic=False, whole=True, swiglu_limit=limit)


@pytest.mark.parametrize("rows", ROWS)
def test_grouped_swiglu_of_four_bits(rows: int) -> None:
    """The assisting matrix is for hardware that multiplies halves of bytes. It changes nothing."""
    x, _, scales, x_scale, ends = grouped_arguments(rows)
    weight = integers(-8, 8, EXPERTS, K, N, dtype=torch.int32, seed=5)
    args = x, [packed(weight)], [scales], x_scale, ends

    def reference(x, weight, scales, x_scale, ends, **_):
        return grouped(x, unpacked(weight[0]), scales[0], x_scale, ends)[:2]

    options = {"weight_assist_matrix": [normal(EXPERTS, N)]}
    check(ops.grouped_matmul_swiglu_quant_v2, args, reference, dynamic=False, whole=True, **options)


@pytest.mark.parametrize("by_size", [True, False])
def test_grouped_swiglu_cut(by_size: bool) -> None:
    """Products are in bfloat16 here, so what is quantised is compared roughly."""
    x, weight, scales, x_scale, ends = (value.to("npu") for value in grouped_arguments(33))
    groups = ends.diff(prepend=ends.new_zeros(1)) if by_size else ends
    options = {"group_list_type": int(by_size), "swiglu_limit": 2.0}
    args = x, [weight], [scales.bfloat16()], x_scale, groups
    got, scale = ops.grouped_matmul_swiglu_quant_v2(*args, **options)
    want, factor, _ = grouped(*(value.cpu() for value in (x, weight, scales, x_scale, ends)), 2.0)
    exact = want * factor.unsqueeze(1)
    torch.testing.assert_close(got.cpu() * scale.cpu().unsqueeze(1), exact.float(), rtol=0.02, atol=0.06)


def dequantised(x, *, weight_scale=None, activation_scale=None, clamp_limit=0.0, glu_alpha=1.0, glu_bias=0.0, **_):
    x = x.double() if weight_scale is None else x * weight_scale * activation_scale.view(-1, 1)
    a, b = x.chunk(2, -1)
    if clamp_limit > 0:
        a, b = a.clamp_max(clamp_limit), b.clamp(-clamp_limit, clamp_limit)
    return quantised(a * torch.sigmoid(glu_alpha * a) * (b + glu_bias))


@pytest.mark.parametrize("rows", ROWS)
def test_dequant_swiglu_quant(rows: int) -> None:
    x, scale, tokens = integers(-999, 999, rows, N, dtype=torch.int32), normal(N).abs() / 99, normal(rows, 1, seed=1)
    options = {"weight_scale": scale, "activation_scale": tokens.abs(), "quant_mode": 1}
    op = ops.npu_dequant_swiglu_quant
    check(op, (x,), dequantised, dynamic=False, **options)
    check(op, (x,), dequantised, dynamic=False, compiled=False, swiglu_mode=1, **options)
    gate = {"swiglu_mode": 1, "clamp_limit": 1.5, "glu_alpha": 1.7, "glu_bias": 1.0}
    check(op, (x,), dequantised, dynamic=False, **gate, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", ROWS)
def test_batch_matmul_transpose(rows: int, dtype: torch.dtype) -> None:
    a, b = normal(rows, 3, 16, dtype=dtype) / 4, normal(3, 16, 8, dtype=dtype, seed=1) / 4

    def reference(a, b, c):
        c.copy_(torch.einsum("mbk,bkn->mbn", a, b))

    check(ops.batch_matmul_transpose, (a, b, torch.zeros(rows, 3, 8, dtype=dtype)), reference)
