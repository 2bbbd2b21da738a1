# SPDX-License-Identifier: Apache-2.0
"""Draws of tokens, which the plug-in puts in place of those of vllm-ascend."""

from __future__ import annotations

import torch
import torch_npu  # noqa: F401
from npugraph_vllm.sampling import apply_top_k_top_p, random_sample


def seeded(seed: int) -> torch.Generator:
    return torch.Generator(device="npu").manual_seed(seed)


def test_tokens_are_drawn_as_often_as_they_are_probable() -> None:
    torch.manual_seed(3)
    probs = torch.tensor([0.0, 0.5, 0.0, 0.125, 0.375, 0.0], device="npu")
    drawn = random_sample(probs.expand(40_000, 6), {}).bincount(minlength=6).cpu() / 40_000
    assert drawn[probs.cpu() == 0].sum() == 0
    assert (drawn - probs.cpu()).abs().max() < 0.01  # four standard deviations


def test_a_seeded_row_draws_the_same_beside_any_others() -> None:
    probs = torch.randn(8, 1000, device="npu").softmax(-1)
    alone = [random_sample(probs[3:4], {0: seeded(7)}).item() for _ in range(2)]
    beside = random_sample(probs, {3: seeded(7), 5: seeded(8)})
    assert beside.dtype == torch.int64
    assert {*alone, beside[3].item()} == {alone[0]}


def test_only_tokens_that_are_left_are_drawn() -> None:
    logits = torch.randn(64, 5000, device="npu")
    k = torch.full((64,), 3, device="npu")
    left = apply_top_k_top_p(logits, k, torch.full((64,), 0.9, device="npu"))
    drawn = random_sample(left.softmax(-1), {})
    assert (logits.gather(1, drawn[:, None]) >= logits.topk(3).values[:, 2:]).all()
    assert apply_top_k_top_p(logits, None, None) is logits
