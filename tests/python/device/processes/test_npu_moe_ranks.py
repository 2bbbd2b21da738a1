# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/moe/moe_distribute.cc between processes: tokens that go to the experts of all ranks
and come back give what one process computes.

Functions without ``test_`` run in each process. The expert e gives ``x @ matrix(e)``. Shared experts are numbered after
the others.
"""

from __future__ import annotations

import itertools
import re

import pytest
import torch
import torch.distributed as dist
import torch_npu

from tests.python.device.npu_operators import integers, normal, with_fakes
from tests.python.device.ranks import Ranks

H, K = 8, 2
VERSIONS = {
    1: (torch_npu.npu_moe_distribute_dispatch, torch_npu.npu_moe_distribute_combine),
    2: (torch_npu.npu_moe_distribute_dispatch_v2, torch_npu.npu_moe_distribute_combine_v2),
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


def matrix(expert: int) -> torch.Tensor:
    return normal(H, H, seed=100 + expert) * 0.3


def tokens_of(rank: int, uneven: bool) -> int:
    """Returns the number of tokens of a rank. If ``uneven``, it falls from 4 on the first rank to 0 on the last one."""
    return 4 - 4 * rank // (dist.get_world_size() - 1) if uneven else 3


def inputs(rank: int, experts: int, uneven: bool = False, special: int = 0) -> tuple[torch.Tensor, ...]:
    """Returns tokens, K different experts for each of them, and weights."""
    n = tokens_of(rank, uneven)
    scores = normal(n, experts + special, seed=rank)
    return normal(n, H, seed=10 + rank), scores.topk(K).indices.int(), normal(n, K, seed=20 + rank)


def mask_of(rank: int, kind: str, uneven: bool) -> torch.Tensor | None:
    n = tokens_of(rank, uneven)
    if kind == "tokens":
        return torch.arange(n) < n - 1
    return integers(0, 2, n, K, seed=5 + rank).bool() if kind == "pairs" else None


def layer(x, ids, weights, mask, experts: int, shared: int) -> torch.Tensor:
    """Computes the layer by its definition, in one process and in float64."""
    on = torch.ones(len(x), K, dtype=torch.bool) if mask is None else mask
    on = on if on.dim() == 2 else on[:, None].expand(-1, K)
    rows = []
    for token, x_row in enumerate(x.double()):
        out = torch.zeros(H, dtype=torch.float64)
        for j in range(K):
            if on[token, j] and ids[token, j] < experts:
                out = out + weights[token, j].double() * (x_row @ matrix(int(ids[token, j])).double())
        for s in range(shared):
            out = out + (x_row @ matrix(experts + s).double() if on[token].any() else 0)
        rows.append(out)
    return torch.stack(rows) if rows else x.double()


def place(experts: int, shared: int, shared_ranks: int, **kwargs) -> tuple[tuple, dict]:
    """Returns the arguments that tell dispatch and combine about ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    return (group, size, rank, experts), {
        "shared_expert_num": max(shared, 1),
        "shared_expert_rank_num": shared_ranks,
        **kwargs,
    }


def own_experts(experts: int, shared: int, shared_ranks: int) -> list[int]:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank < shared_ranks:
        return [experts + rank // (shared_ranks // shared)]
    each = experts // (size - shared_ranks)
    return list(range((rank - shared_ranks) * each, (rank - shared_ranks + 1) * each))


def through_experts(rows: torch.Tensor, nums: torch.Tensor, own: list[int]) -> torch.Tensor:
    """Applies the experts of this rank to their rows."""
    pieces = rows.split([*nums.tolist(), len(rows) - int(nums.sum())])
    made = [piece @ matrix(e).to(piece) for e, piece in zip(own, pieces, strict=False)]
    return torch.cat([*made, torch.full_like(pieces[-1], float("nan"))])


def check_layer(version: int, experts: int, shared: int, shared_ranks: int, mask: str, uneven: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    dispatch, combine = VERSIONS[version]
    x, ids, weights = inputs(rank, experts, uneven)
    on = mask_of(rank, mask, uneven)
    where, kwargs = place(experts, shared, shared_ranks, global_bs=tokens_of(0, uneven) * size if uneven else 0)
    if on is not None:
        kwargs["x_active_mask"] = on.npu()
    wanted = layer(x, ids, weights, on, experts, shared if shared_ranks else 0)
    x, ids, weights = x.npu(), ids.npu(), weights.npu()
    rows, scales, notes, nums, counts, total, row_weights = dispatch(x, ids, *where, expert_scales=weights, **kwargs)
    own = own_experts(experts, shared, shared_ranks)
    assert scales.shape == (len(rows),) and not scales.any()
    assert nums.shape == (len(own),) and counts.shape == (len(own) * size,)
    assert nums.dtype == torch.int64 and int(counts[-1]) == int(total) == int(nums.sum())
    assert (rows[int(total) :] == 0).all() and (row_weights[int(total) :] == 0).all()
    results = through_experts(rows, nums, own)
    out = combine(results, ids, notes, counts, weights, *where, **kwargs)
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
    plus = combine(results, ids, notes, counts, weights, *where, shared_expert_x=x, **kwargs)
    torch.testing.assert_close(plus.cpu().double(), wanted + x.cpu(), rtol=1e-4, atol=1e-4)


def check_layers(layouts: list[tuple[int, int, int]]) -> None:
    for version, layout in itertools.product(VERSIONS, layouts):
        for mask, uneven in (("none", False), ("tokens", True), ("pairs", True)):
            check_layer(version, *layout, mask, uneven)


def test_two_ranks(ranks) -> None:
    ranks(check_layers, [(4, 1, 0), (3, 1, 1)])


@pytest.mark.long
def test_four_ranks(tmp_path) -> None:
    ranks = Ranks(4, tmp_path)
    ranks(check_layers, [(8, 1, 0), (6, 1, 1), (4, 1, 2), (4, 2, 2), (3, 3, 3)])
    ranks(check_rows)
    ranks(check_compiled_gradients)
    ranks.close()


def check_halves(experts: int, shared: int, shared_ranks: int, mask: str, uneven: bool) -> None:
    """Set-up and tear-down together do what the single operators do."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, ids, weights = inputs(rank, experts, uneven)
    on = mask_of(rank, mask, uneven)
    masked = {} if on is None else {"x_active_mask": on.npu()}
    where, kwargs = place(experts, shared, shared_ranks, global_bs=tokens_of(0, uneven) * size if uneven else 0)
    wanted = layer(x, ids, weights, on, experts, shared if shared_ranks else 0)
    x, ids, weights = x.npu(), ids.npu(), weights.npu()
    for quant_mode in (2, 0):
        how = kwargs | {"quant_mode": quant_mode}
        y, places, sent = torch_npu.npu_moe_distribute_dispatch_setup(x, ids, *where, **masked, **how)
        came = torch_npu.npu_moe_distribute_dispatch_teardown(x, y, ids, sent, *where, **how)
        at_once = VERSIONS[2][0](x, ids, *where, **masked, **how)
        assert torch.equal(places, VERSIONS[1][0](x, ids, *where, **masked, **how)[2])
        for i in (0, 1, 3):
            assert torch.equal(came[i], at_once[i])
        assert torch.equal(came[2].view(-1, 128)[:, :3], at_once[2].view(-1, 128)[:, :3])
    results = through_experts(came[0], came[3], own_experts(experts, shared, shared_ranks))
    home, back = torch_npu.npu_moe_distribute_combine_setup(results, ids, came[2], *where, **kwargs)
    teardown = torch_npu.npu_moe_distribute_combine_teardown
    out = teardown(results, home, ids, places, weights, back, *where, **masked, **kwargs, shared_expert_x=x)
    torch.testing.assert_close(out.cpu().double(), wanted + x.cpu(), rtol=1e-4, atol=1e-4)


def test_set_up_and_tear_down(ranks) -> None:
    for layout in ((4, 1, 0), (3, 1, 1)):
        ranks(check_halves, *layout, "none", False)
        ranks(check_halves, *layout, "pairs", True)


def test_results_of_fake_tensors(ranks) -> None:
    for layout in ((4, 1, 0), (3, 1, 1)):
        ranks(with_fakes, check_halves, *layout, "none", False)
        ranks(with_fakes, check_halves, *layout, "pairs", True)
        for version in VERSIONS:
            ranks(with_fakes, check_layer, version, *layout, "tokens", True)
    for mode in (1, 2, 3, 4):
        ranks(with_fakes, check_quantised, mode, True)
    for function in (check_rows, check_special):
        ranks(with_fakes, function)


def check_rows() -> None:
    """Checks the order of rows on each rank: those of its first expert, by rank, then by token; then those of the next
    expert."""
    rank, size = dist.get_rank(), dist.get_world_size()
    experts = 2 * size
    where, kwargs = place(experts, 0, 0)
    everything = [inputs(i, experts) for i in range(size)]
    x, ids, weights = (t.npu() for t in everything[rank])
    wanted = [
        (e, i, t, j, *everything[i])
        for e in own_experts(experts, 0, 0)
        for i in range(size)
        for t, j in everything[i][1].eq(e).nonzero().tolist()
    ]
    numbers = {"expert_token_nums_type": 0, "expert_scales": weights}
    rows, _, notes, nums, counts, _, row_weights = VERSIONS[2][0](x, ids, *where, **numbers, **kwargs)
    assert len(rows) == 3 * size * K and len(notes) == len(rows) * 128
    assert torch.equal(rows[: len(wanted)].cpu(), torch.stack([w[4][w[2]] for w in wanted]))
    assert torch.equal(row_weights[: len(wanted)].cpu(), torch.stack([w[6][w[2], w[3]] for w in wanted]))
    assert notes.view(-1, 128)[: len(wanted), :4].tolist() == [[i, t, j, 0] for _, i, t, j, *_ in wanted]
    firsts = [e for e, *_ in wanted]
    own = own_experts(experts, 0, 0)
    assert nums.tolist() == [sum(first <= e for first in firsts) for e in own]
    ends = [sum((e, i) <= (expert, source) for e, i, *_ in wanted) for expert in own for source in range(size)]
    assert counts.tolist() == ends
    places = VERSIONS[1][0](x, ids, *where, **kwargs)[2].cpu().view(-1, K)
    for (t, j), place_of_pair in zip(itertools.product(range(len(x)), range(K)), places.view(-1), strict=True):
        chosen = everything[rank][1]
        assert place_of_pair == chosen.view(-1)[: t * K + j].eq(chosen[t, j]).sum()


def test_rows_are_ordered_by_expert_rank_and_token(ranks) -> None:
    ranks(check_rows)


def rounded(x: torch.Tensor, mode: int, scales: torch.Tensor | None) -> torch.Tensor:
    """Returns rounded rows. ``scales`` multiplies them before the rounding."""
    x = x.double() if scales is None else x.double() * scales.double()
    if mode == 1:
        return x.round().clamp(-128, 127)
    if mode == 2:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round() * scale
    if mode == 3:
        scale = x.abs().amax(-1, keepdim=True) / 448
        return (x / scale).to(torch.float8_e4m3fn).double() * scale
    scale = torch.exp2(torch.floor(torch.log2(x.abs().amax(-1, keepdim=True))) - 8)
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).double() * scale


def check_quantised(mode: int, of_experts: bool) -> None:
    """Rows are quantised when they are sent, and their scales go with them. Experts leave the rows as they are."""
    rank, size = dist.get_rank(), dist.get_world_size()
    experts, shared_ranks = 3 * (size - 1), 1
    where, kwargs = place(experts, 1, shared_ranks, quant_mode=mode)
    if mode > 2:
        kwargs["y_dtype"] = torch.float8_e4m3fn
    x, ids, weights = inputs(rank, experts)
    scales = normal(1 + experts, H, seed=7).abs() * 40 + 1 if of_experts else torch.full((1,), 40.0)
    scales = None if mode > 1 and not of_experts else scales
    if scales is not None:
        kwargs["scales"] = scales.npu()
    rows, row_scales, notes, _, counts, *_ = VERSIONS[2][0](x.npu(), ids.npu(), *where, **kwargs)
    assert rows.dtype == (torch.int8 if mode <= 2 else torch.float8_e4m3fn)
    assert row_scales.shape == {1: (len(rows),), 2: (len(rows),), 3: (len(rows), 1), 4: (len(rows), 2)}[mode]
    if mode == 1:
        values = rows.float()
    elif mode == 4:
        values = rows.float() * row_scales.view(torch.float8_e8m0fnu)[:, :1].float()
    else:
        values = rows.float() * row_scales.view(-1, 1)
    out = VERSIONS[2][1](values, ids.npu(), notes, counts, weights.npu(), *where, **place(experts, 1, shared_ranks)[1])
    of = lambda e: None if scales is None else scales[e] if of_experts else scales  # noqa: E731
    wanted = rounded(x, mode, of(0))
    for t, j in itertools.product(range(len(x)), range(K)):
        wanted[t] += weights[t, j] * rounded(x[t], mode, of(1 + int(ids[t, j])))
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
def test_quantised_rows_take_their_scales_along(ranks, mode: int) -> None:
    for of_experts in (False, True):
        ranks(check_quantised, mode, of_experts)


def check_special() -> None:
    """Special experts come after those of ranks. They give zeros, the token, and 2 * token + 3 * v. A norm follows."""
    rank, size = dist.get_rank(), dist.get_world_size()
    experts = 2 * size
    where, kwargs = place(experts, 0, 0, zero_expert_num=1, copy_expert_num=1, const_expert_num=1)
    x, ids, weights = inputs(rank, experts, special=3)
    ids[0], ids[1] = torch.tensor([experts, experts + 2]), torch.tensor([experts + 1, 0])
    v = normal(1, H, seed=3)
    wanted = layer(x, ids, weights, None, experts, 0)
    for t, j in itertools.product(range(len(x)), range(K)):
        gives = {experts + 1: x[t].double(), experts + 2: 2 * x[t].double() + 3 * v[0].double()}
        wanted[t] += weights[t, j] * gives.get(int(ids[t, j]), torch.zeros(H, dtype=torch.float64))
    sent = VERSIONS[2][0](x.npu(), ids.npu(), *where, **kwargs)
    results = through_experts(sent[0], sent[3], own_experts(experts, 0, 0))
    given = {
        "ori_x": x.npu(),
        "const_expert_alpha_1": torch.tensor([2.0]).npu(),
        "const_expert_alpha_2": torch.tensor([3.0]).npu(),
        "const_expert_v": v.npu(),
    }
    home = (results, ids.npu(), sent[2], sent[4], weights.npu())
    out = VERSIONS[2][1](*home, *where, **given, **kwargs)
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
    residual, gamma = normal(len(x), H, seed=8), normal(H, seed=9)
    normed = torch_npu.npu_moe_distribute_combine_add_rms_norm
    y, rstd, total = normed(*home, residual.npu(), gamma.npu(), *where, **given, **kwargs, norm_eps=0.1)
    wanted = wanted + residual
    root = (wanted.square().mean(-1, keepdim=True) + 0.1).rsqrt()
    for got, want in ((y, wanted * root * gamma), (rstd, root), (total, wanted)):
        torch.testing.assert_close(got.cpu().double(), want[:, None], rtol=1e-4, atol=1e-4)


def test_special_experts(ranks) -> None:
    ranks(check_special)


def check_gradients() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    experts = 2 * size
    where, kwargs = place(experts, 0, 0)
    x, ids, weights = inputs(rank, experts)
    ours, theirs = x.npu().requires_grad_(), x.double().requires_grad_()
    our_weights, their_weights = weights.npu().requires_grad_(), weights.double().requires_grad_()
    sent = VERSIONS[2][0](ours, ids.npu(), *where, **kwargs)
    used = int(sent[5])
    results = through_experts(sent[0], sent[3], own_experts(experts, 0, 0))[:used]
    results = torch.cat([results, torch.zeros(len(sent[0]) - used, H, device="npu")])
    out = VERSIONS[2][1](results, ids.npu(), sent[2], sent[4], our_weights, *where, **kwargs)
    seed = normal(*out.shape, seed=4)
    out.backward(seed.npu())
    layer(theirs, ids, their_weights, None, experts, 0).backward(seed.double())
    torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(our_weights.grad.cpu().double(), their_weights.grad, rtol=1e-4, atol=1e-4)


def test_gradients_across_ranks_are_those_of_one_process(ranks) -> None:
    ranks(check_gradients)


def check_compiled() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    experts = 3 * (size - 1)
    where, kwargs = place(experts, 1, 1)

    def step(x, ids, weights):
        sent = VERSIONS[2][0](x, ids, *where, **kwargs)
        return VERSIONS[2][1](sent[0] * 2, ids, sent[2], sent[4], weights, *where, **kwargs)

    compiled = torch.compile(step, backend="npugraph_ex", fullgraph=True, dynamic=True)
    for uneven in (False, True):
        x, ids, weights = (t[: 3 - uneven].npu() for t in inputs(rank, experts))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, ids, weights), step(x, ids, weights))


def test_compiled_exchanges_give_what_eager_gives(ranks) -> None:
    ranks(check_compiled)


def check_compiled_gradients() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    where, kwargs = place(2 * size, 0, 0)

    def step(x, ids, weights):
        sent = VERSIONS[2][0](x, ids, *where, **kwargs)
        return VERSIONS[2][1](sent[0] * 2, ids, sent[2], sent[4], weights, *where, **kwargs).square().sum()

    x, ids, weights = (t.npu() for t in inputs(rank, 2 * size))
    gradients = []
    for call in (step, torch.compile(step, backend="npugraph_ex", fullgraph=True)):
        leaf = x.clone().requires_grad_()
        call(leaf, ids, weights).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


def check_refused() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    (group, *_), kwargs = place(4, 0, 0)
    x, ids, _ = (t.npu() for t in inputs(rank, 4, uneven=True))
    text = "ranks make place for different numbers of tokens, [8, 0]: global_bs must be the same on all, and not 0"
    for version, (dispatch, _) in VERSIONS.items():
        name = f"npu_moe_distribute_dispatch{'_v2' if version == 2 else ''}"
        with pytest.raises(RuntimeError, match=re.escape(f"{name}: {text}")):
            dispatch(x, ids, group, size, rank, 4, **kwargs)
        with pytest.raises(RuntimeError, match=f"{name}: this process is rank {rank} of the group '{group}', but its"):
            dispatch(x, ids, group, size, 1 - rank, 4, **kwargs)
        with pytest.raises(RuntimeError, match=f"{name}: the group '{group}' has 2 ranks, but the world size is given"):
            dispatch(x, ids, group, 4, rank, 4, **kwargs)
    x, ids, weights = (t.npu() for t in inputs(rank, 4))
    rows, _, notes, _, counts, *_ = VERSIONS[2][0](x, ids, group, size, rank, 4, **kwargs)
    text = f"npu_moe_distribute_combine_v2: 6 rows come to rank {rank}, which has 2 places"
    with pytest.raises(RuntimeError, match=text):
        VERSIONS[2][1](rows, ids[:1], notes, counts, weights[:1], group, size, rank, 4, **kwargs)


def test_refused_between_ranks(ranks) -> None:
    ranks(check_refused)


@pytest.mark.parametrize(
    ("version", "name"), [(1, "npu_moe_distribute_dispatch"), (2, "npu_moe_distribute_dispatch_v2")]
)
def test_layouts_of_experts_that_do_not_fit_are_refused(version: int, name: str) -> None:
    dispatch = VERSIONS[version][0]
    x, ids = normal(3, H), integers(0, 4, 3, K, dtype=torch.int32)
    refused = [
        ((2, 2, 4), {}, "ep_rank_id is 2, allowed are 0 to 1"),
        ((0, 0, 4), {}, "ep_world_size is 0, allowed are 1 and more"),
        ((2, 0, 4), {"tp_world_size": 2}, "tp_world_size is 2, allowed are 0 and 1"),
        ((2, 0, 4), {"shared_expert_rank_num": 2}, "shared_expert_rank_num is 2 of 2 ranks, allowed are 0 to 1"),
        ((2, 0, 5), {}, "moe_expert_num is 5, which must be a multiple of the 2 ranks that have these experts"),
        (
            (4, 0, 3),
            {"shared_expert_rank_num": 1, "expert_shard_type": 1},
            "expert_shard_type is 1, allowed are [0]",
        ),
        (
            (4, 0, 2),
            {"shared_expert_rank_num": 2, "shared_expert_num": 4},
            "shared_expert_num is 4, which must divide shared_expert_rank_num, 2",
        ),
        ((2, 0, 4), {"global_bs": 5}, "global_bs is 5, but x has 3 rows on one of 2 ranks"),
        ((2, 0, 4), {"quant_mode": 1}, "quant_mode 1 asks for scales"),
    ]
    for where, kwargs, text in refused:
        with pytest.raises(RuntimeError, match=re.escape(f"{name}: {text}")):
            dispatch(x, ids, "ep", *where, **kwargs)
    with pytest.raises(RuntimeError, match=re.escape(f"{name}: quant_mode 3 asks for y_dtype")):
        dispatch(x, ids, "ep", 1, 0, 4, quant_mode=3)
    with pytest.raises(
        RuntimeError, match=re.escape(f"{name}: scales has 3 rows, allowed is one for each of 4 experts")
    ):
        dispatch(x, ids, "ep", 1, 0, 4, quant_mode=2, scales=torch.ones(3, H))
    with pytest.raises(RuntimeError, match=re.escape(f"{name}: quant_mode is 5, allowed are [0, 1, 2, 3, 4]")):
        dispatch(x, ids, "ep", 1, 0, 4, quant_mode=5)


def test_combine_refused() -> None:
    x, ids, weights = normal(6, H), integers(0, 4, 3, K, dtype=torch.int32), normal(3, K)
    notes, counts, rank = torch.zeros(6 * 128, dtype=torch.int32), torch.zeros(4, dtype=torch.int32), ("ep", 1, 0, 4)
    combine, name = VERSIONS[2][1], "npu_moe_distribute_combine_v2"
    refused = [
        ({"copy_expert_num": 1}, "copy_expert_num and const_expert_num ask for ori_x"),
        (
            {"const_expert_num": 1, "ori_x": x},
            "const_expert_num asks for const_expert_alpha_1, const_expert_alpha_2 and",
        ),
        ({"elastic_info": counts}, "elastic_info is not supported on the host"),
    ]
    for kwargs, text in refused:
        with pytest.raises(RuntimeError, match=f"^{name}: {text}"):
            combine(x, ids, notes, counts, weights, *rank, **kwargs)
    constants = {"ori_x": x, "const_expert_alpha_1": weights, "const_expert_alpha_2": weights, "const_expert_v": x}
    with pytest.raises(RuntimeError, match="const_expert_alpha_1 and const_expert_alpha_2 must have 1 numbers, got 6"):
        combine(x, ids, notes, counts, weights, *rank, const_expert_num=1, **constants)
    with pytest.raises(RuntimeError, match=f"{name}: ep_send_counts has 3 numbers, but rank 0 has 4"):
        combine(x, ids, notes, counts[:3], weights, *rank)
