# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/tensors/sampling.cc, against loops over rows."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_close, normal


def top_k_top_p(logits, p=None, k=None):
    out = logits.clone()
    for i, row in enumerate(out):
        if k is not None:
            row[row < row.sort(descending=True).values[min(int(k[i]), len(row)) - 1]] = -torch.inf
        if p is not None:
            probs = row.softmax(0)
            order = sorted(range(len(row)), key=lambda j, row=row: (row[j].item(), j))
            below = 0.0
            for j in order[:-1]:
                below += probs[j].item()
                if below <= 1 - p[i]:
                    row[j] = -torch.inf
    return out


@pytest.mark.parametrize("dtype", FLOATING)
def test_top_k_top_p(dtype: torch.dtype) -> None:
    logits, k = normal(4, 16, dtype=dtype), torch.tensor([1, 3, 16, 20], dtype=torch.int32)
    p = torch.tensor([0.4, 0.7, 0.9, 1.0], dtype=dtype)
    run = torch_npu.npu_top_k_top_p
    check(run, (logits, p, k), top_k_top_p)
    check(run, (logits, p), top_k_top_p)
    check(run, (logits, None, k), top_k_top_p)


def test_top_k_keeps_what_equals_the_kth() -> None:
    check(torch_npu.npu_top_k_top_p, (torch.tensor([[1.0, 2.0, 2.0, 0.0]]), None, torch.tensor([1])), top_k_top_p)


@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("n", [1025, 6000])
def test_long_rows_are_cut_as_short_ones(n: int, spread: float) -> None:
    logits = (normal(8, n) * spread * 16).round() / 16  # many elements are equal
    logits[1, ::2] = -torch.inf
    logits[2] = 1.0
    k = torch.tensor([1, 50, 999, 1, 1024, n - 1, n, 2 * n])
    p = torch.tensor([0.5, 0.9, 0.25, 0.0, 0.95, 0.999, 1.0, 0.1])
    run = torch_npu.npu_top_k_top_p
    check(run, (logits, p, k), top_k_top_p, compiled=False)
    check(run, (logits, p), top_k_top_p, compiled=False)
    check(run, (logits, None, k), top_k_top_p, compiled=False)


def test_rows_whose_probabilities_are_nan_keep_their_greatest_logits() -> None:
    logits = normal(3, 2000)
    logits[0, 7], logits[1, 7], logits[2] = torch.nan, torch.inf, -torch.inf
    for rows in (logits, logits[1:]):
        kept = torch_npu.npu_top_k_top_p(rows, torch.full((len(rows),), 0.5), torch.full((len(rows),), 3))
        assert (kept > -torch.inf).logical_or(kept.isnan()).sum(-1).tolist() == [3, 3, 0][-len(rows) :]


def sample(logits, top_k, top_p, q=None, min_ps=None, input_is_logits=True, eps=1e-8):
    places, masked = [], torch.full_like(logits, -torch.inf)
    for i, row in enumerate(logits):
        order = sorted(range(len(row)), key=lambda j, row=row: (-row[j].item(), j))
        probs = row.softmax(0) if input_is_logits else row
        order = order[: int(top_k[i])] if top_k[i] > 0 else order
        total = sum(probs[j].item() for j in order)
        kept, before = [], 0.0
        for j in order:
            share = probs[j].item() / total
            enough = min_ps is None or share >= min_ps[i] * probs[order[0]].item() / total
            if not kept or (before < top_p[i] and enough):
                kept.append(j)
            before += share
        masked[i, kept] = row[kept]
        rate = [probs[j] / (1 if q is None else q[i, j].abs() + eps) for j in kept]
        places.append(kept[rate.index(max(rate))])
    return torch.tensor(places), masked


@pytest.mark.parametrize("dtype", FLOATING)
def test_top_k_top_p_sample(dtype: torch.dtype) -> None:
    logits = normal(5, 16, dtype=dtype)
    k, p = torch.tensor([1, 3, 0, 16, 9], dtype=torch.int32), torch.tensor([0.4, 0.7, 0.9, 1.0, 0.5], dtype=dtype)
    run = torch_npu.npu_top_k_top_p_sample
    check(run, (logits, k, p), sample)
    q = torch.empty(5, 16).exponential_(generator=torch.Generator().manual_seed(0))
    check(run, (logits, k, p, q), sample, min_ps=torch.tensor([0.1, 0.5, 0.2, 0.3, 0.0]))
    check(run, (logits.float().softmax(-1), k, p, q), sample, input_is_logits=False)


def test_samples_are_distributed_as_the_logits_say() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]]).expand(20000, 3).npu()
    q = torch.empty(20000, 3).exponential_(generator=torch.Generator().manual_seed(0)).npu()
    every, all_p = torch.zeros(20000, dtype=torch.int32).npu(), torch.ones(20000).npu()
    places, _ = torch_npu.npu_top_k_top_p_sample(logits, every, all_p, q)
    share = places.cpu().bincount(minlength=3) / 20000
    torch.testing.assert_close(share, torch.tensor([0.0, 1.0, 2.0]).softmax(0), rtol=0, atol=0.02)
    check_close(share.sum(), torch.tensor(1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch_npu.npu_top_k_top_p(normal(2, 8), normal(3)),
            r"npu_top_k_top_p: p has 3 elements, logits has 2 rows",
        ),
        (
            lambda: torch_npu.npu_top_k_top_p_sample(normal(2, 8), normal(2), normal(2), post_sample="multiNomial"),
            r'npu_top_k_top_p_sample: post_sample is "multiNomial", allowed is "qSample"',
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
