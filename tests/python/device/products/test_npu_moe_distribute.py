# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/moe/moe_distribute.cc on one rank, against loops over tokens. test_npu_moe_ranks.py
tests several ranks, and calls that are refused."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.python.device.npu_operators import check, check_fake, integers, normal

RANK = ("ep", 1, 0, 4)  # group, size, rank, experts


def dispatch(
    x, ids, *_, notes, scales=None, x_active_mask=None, expert_scales=None, quant_mode=0, global_bs=0, **kwargs
):
    n, k = ids.shape
    is_on = torch.ones(n, k) if x_active_mask is None else x_active_mask.view(n, -1).expand(n, k)
    pairs = sorted((int(ids[i, j]), i * k + j) for i in range(n) for j in range(k) if is_on[i, j] and ids[i, j] < 4)
    total = (global_bs or n) * min(k, 4)
    rows = torch.zeros(total, x.shape[1], dtype=torch.float64)
    weights = torch.zeros(total, dtype=torch.float64)
    places, note = torch.zeros(n * k, dtype=torch.int64), torch.zeros(total, 128, dtype=torch.int64)
    counts = torch.zeros(4, dtype=torch.int64)
    for row, (expert, pair) in enumerate(pairs):
        rows[row] = x[pair // k] * (1 if scales is None else scales[expert])
        weights[row] = 0 if expert_scales is None else expert_scales.view(-1)[pair]
        places[pair] = counts[expert]
        note[row, 1:3] = torch.tensor([pair // k, pair % k])
        counts[expert] += 1
    left_out = sorted(set(range(n * k)) - {pair for _, pair in pairs})
    for place, pair in enumerate(left_out):
        places[pair] = place
    row_scales = torch.zeros(total)
    if quant_mode:
        row_scales = rows.abs().amax(1) / 127
        rows = (rows / torch.where(row_scales == 0, 1, row_scales)[:, None]).round()
    nums = counts if kwargs.get("expert_token_nums_type", 1) else counts.cumsum(0)
    third = note.view(-1) if notes else places
    none = torch.empty(0)
    return (
        rows,
        row_scales,
        third,
        nums,
        counts.cumsum(0),
        counts.sum(0, True),
        none if expert_scales is None else weights,
    )


OPS = [
    (torch_npu.npu_moe_distribute_dispatch, torch_npu.npu_moe_distribute_combine, False),
    (torch_npu.npu_moe_distribute_dispatch_v2, torch_npu.npu_moe_distribute_combine_v2, True),
]


@pytest.mark.parametrize(("op", "_", "notes"), OPS)
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"x_active_mask": torch.tensor([True, False, True, True, False]), "expert_token_nums_type": 0},
        {"expert_scales": normal(5, 2, seed=1), "global_bs": 7},
        {"quant_mode": 2},
        {"quant_mode": 2, "scales": normal(4, 8, seed=2), "expert_scales": normal(5, 2, seed=1)},
    ],
)
def test_dispatched_tokens_are_those_of_a_loop(op, _, notes: bool, kwargs) -> None:
    def reference(*args, **kwargs):
        return dispatch(*args, notes=notes, **kwargs)

    check(op, (normal(5, 8), integers(0, 4, 5, 2, dtype=torch.int32), *RANK), reference, **kwargs)


@pytest.mark.parametrize(("op", "back", "notes"), OPS)
@pytest.mark.parametrize("masked", [False, True])
def test_combined_tokens_are_weighted_sums_of_rows(op, back, notes: bool, masked: bool) -> None:
    x, ids, weights = normal(5, 8), integers(0, 4, 5, 2, dtype=torch.int32), normal(5, 2, seed=1)
    mask = torch.tensor([True, False, True, True, False]) if masked else None
    rows, _, info, _, counts, _, _ = op(x, ids, *RANK, x_active_mask=mask)
    shared = normal(5, 8, seed=2)

    def reference(rows, ids, info, counts, weights, *_, x_active_mask=None, shared_expert_x=None):
        is_on = 1 if mask is None else mask[:, None]
        out = x.double() * (weights * is_on).sum(1, keepdim=True)
        return out if shared_expert_x is None else out + shared_expert_x

    kwargs = {"x_active_mask": mask}
    check(back, (rows, ids, info, counts, weights, *RANK), reference, **kwargs)
    check(back, (rows, ids, info, counts, weights, *RANK), reference, shared_expert_x=shared, **kwargs)


def padded(rows: torch.Tensor, multiple: int) -> torch.Tensor:
    return torch.nn.functional.pad(rows, (0, -rows.shape[1] % multiple))


def test_rows_with_scales_of_set_up() -> None:
    """Quantised rows have their scale behind them, from a multiple of 32 on, and fill a multiple of 512 bytes."""
    x, ids = normal(5, 40), integers(0, 4, 5, 2, dtype=torch.int32)
    y, _, info = torch_npu.npu_moe_distribute_dispatch_setup(x, ids, *RANK, quant_mode=2)
    rows, scales, *_ = dispatch(x.double(), ids, *RANK, notes=False, quant_mode=2)
    assert (y.dtype, y.shape, y[:, 40:64].count_nonzero(), y[:, 68:].count_nonzero()) == (torch.int8, (10, 512), 0, 0)
    torch.testing.assert_close(y[:, 64:68].contiguous().view(torch.float32)[:, 0].double(), scales)
    assert (y[:, :40] - rows).abs().max() <= 1
    given = (x, y, ids, info, *RANK)
    came = torch_npu.npu_moe_distribute_dispatch_teardown(*given, quant_mode=2)
    assert torch.equal(came[0], y[:, :40])
    torch.testing.assert_close(came[1].double(), scales)


def test_scales_of_blocks() -> None:
    """quant_mode 4 has one scale for each 32 values, and an even number of them."""
    args, kwargs = (normal(5, 72), integers(0, 4, 5, 2, dtype=torch.int32), *RANK), {"quant_mode": 4, "y_dtype": 24}
    op = torch_npu.npu_moe_distribute_dispatch_v2
    real = op(*args, **kwargs)
    assert (real[0].dtype, real[1].shape) == (torch.float8_e4m3fn, (10, 4))
    for dynamic in (False, True):
        check_fake(op, args, kwargs, real, dynamic=dynamic)


@pytest.mark.parametrize(("op", "_", "notes"), OPS)
@pytest.mark.parametrize("global_bs", [0, 160])
def test_counts_of_servers(op, _, notes: bool, global_bs: int) -> None:
    """With expert_scales the counts have two more numbers for each pair of all ranks and each 8 ranks."""
    with FakeTensorMode():
        args = (torch.empty(5, 8), torch.empty(5, 2, dtype=torch.int32), "ep", 16, 3, 32)
        given = {"global_bs": global_bs, "expert_scales": torch.empty(5, 2)}
        assert op(*args, **given)[4].shape == (16 * 2 + 2 * (global_bs or 80) * 2 * 2,)
        assert op(*args, global_bs=global_bs)[4].shape == (16 * 2,)


@pytest.mark.parametrize("kwargs", [{}, {"x_active_mask": torch.tensor([True, False, True, True, False])}])
def test_set_up_and_tear_down(kwargs) -> None:
    x, ids, weights = normal(5, 8), integers(0, 4, 5, 2, dtype=torch.int32), normal(5, 2, seed=1)

    def set_up(x, ids, *where, **kwargs):
        rows, _, places, counts, *_ = dispatch(x, ids, *where, notes=False, **kwargs)
        note = dispatch(x, ids, *where, notes=True, **kwargs)[2].view(-1, 128)
        pairs = torch.where(torch.arange(10) < counts.sum(), note[:, 1] * 2 + note[:, 2], -1)
        return padded(rows, 256), places, torch.cat([pairs, counts])

    def tear_down(x, y, ids, info, *where):
        rows, scales, notes, counts, *_ = dispatch(x, ids, *where, notes=True, **kwargs)
        notes.view(-1, 128)[: counts.sum(), 3] = 1
        return rows, scales, notes, counts

    halves = torch_npu.npu_moe_distribute_dispatch_setup, torch_npu.npu_moe_distribute_dispatch_teardown
    check(halves[0], (x, ids, *RANK), set_up, **kwargs)
    y, places, info = halves[0](x, ids, *RANK, **kwargs)
    check(halves[1], (x, y, ids, info, *RANK), tear_down)
    rows, _, notes, counts = halves[1](x, y, ids, info, *RANK)
    used = int(counts.sum())

    def combine_set_up(rows, ids, notes, *_):
        return padded(rows, 512), torch.cat([notes.view(-1, 128)[:, 1:3].reshape(-1), torch.tensor([used])])

    back = torch_npu.npu_moe_distribute_combine_setup, torch_npu.npu_moe_distribute_combine_teardown
    check(back[0], (rows, ids, notes, *RANK), combine_set_up)
    home, info = back[0](rows, ids, notes, *RANK)

    def combine(rows, home, ids, places, weights, info, *_, shared_expert_x, **__):
        is_on = kwargs.get("x_active_mask", torch.ones(5))[:, None]
        return x.double() * (weights * is_on).sum(1, keepdim=True) + shared_expert_x

    shared = {"shared_expert_x": normal(5, 8, seed=2)}
    check(back[1], (rows, home, ids, places, weights, info, *RANK), combine, **kwargs, **shared)


def test_set_up_and_tear_down_refused() -> None:
    x, ids = normal(5, 8), integers(0, 4, 5, 2, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="npu_moe_distribute_dispatch_setup: quant_mode is 3, allowed are "):
        torch_npu.npu_moe_distribute_dispatch_setup(x, ids, *RANK, quant_mode=3)
    y, _, info = torch_npu.npu_moe_distribute_dispatch_setup(x, ids, *RANK)
    with pytest.raises(RuntimeError, match="_teardown: y has rows of 256 values, and those of x, of 8, give 512"):
        torch_npu.npu_moe_distribute_dispatch_teardown(x, y, ids, info, *RANK, quant_mode=2)
    notes = torch.zeros(3 * 128, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="assist_info_for_combine is of 3 rows, expand_x has 5"):
        torch_npu.npu_moe_distribute_combine_setup(x, ids, notes, *RANK)
    with pytest.raises(
        RuntimeError, match="quant_expand_x has rows of 8 values, and those of expand_x, of 8, give 512"
    ):
        torch_npu.npu_moe_distribute_combine_teardown(x, x, ids, ids, x, notes, *RANK)


def test_special_experts() -> None:
    """Expert 4 gives zeros, and expert 5 gives the token."""
    x, weights = normal(3, 8), normal(3, 2, seed=1)
    ids = torch.tensor([[0, 4], [5, 2], [4, 5]], dtype=torch.int32)
    special = {"zero_expert_num": 1, "copy_expert_num": 1}
    rows, _, notes, nums, counts, _, _ = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, *RANK, **special)
    assert nums.tolist() == [1, 0, 1, 0]
    rows = rows * 2

    def reference(rows, ids, notes, counts, weights, *_, ori_x=None, **__):
        share = torch.tensor([[2, 0], [1, 2], [0, 1]]) * weights
        return x.double() * share.sum(1, keepdim=True)

    args = (rows, ids, notes, counts, weights, *RANK)
    check(torch_npu.npu_moe_distribute_combine_v2, args, reference, ori_x=x, **special)
    gamma, residual = normal(8, seed=2), normal(3, 1, 8, seed=3)

    def normed(rows, ids, notes, counts, weights, residual, gamma, *_, norm_eps=1e-6, **__):
        out = reference(rows, ids, notes, counts, weights)[:, None] + residual
        rstd = 1 / torch.sqrt((out * out).mean(-1, keepdim=True) + norm_eps)
        return out * rstd * gamma, rstd, out

    args = (rows, ids, notes, counts, weights, residual, gamma, *RANK)
    check(torch_npu.npu_moe_distribute_combine_add_rms_norm, args, normed, ori_x=x, **special, norm_eps=0.1)
    args = (rows, ids, notes, counts, weights, residual[:, 0], gamma, *RANK)  # results have three dimensions
    flat = lambda *args, **kwargs: normed(*args[:5], args[5][:, None], *args[6:], **kwargs)  # noqa: E731
    check(torch_npu.npu_moe_distribute_combine_add_rms_norm, args, flat, compiled=False, ori_x=x, **special)
