# SPDX-License-Identifier: Apache-2.0
"""The next token of each sequence, drawn from its logits without sorting them, and with one random number."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import torch


def replace_draws(module: ModuleType) -> None:
    """Changes ``vllm_ascend.sample.sampler``, which sorts all logits and draws a random number for each of them."""
    module.apply_top_k_top_p = apply_top_k_top_p
    module.random_sample = random_sample


def apply_top_k_top_p(logits: torch.Tensor, k: torch.Tensor | None, p: torch.Tensor | None) -> torch.Tensor:
    """Returns ``logits`` [rows, n] with -inf for those that ``npu_top_k_top_p`` drops; k and p are [rows]."""
    return logits if k is None and p is None else torch.ops.npu.npu_top_k_top_p(logits, p, k)


def random_sample(probs: torch.Tensor, generators: Mapping[int, torch.Generator]) -> torch.Tensor:
    """Draws a token for each row of ``probs`` [rows, n] and returns [rows] in int64. A row draws with its generator in
    ``generators``, if it has one.

    A token is drawn where the sum of the probabilities up to it, and including it, reaches a random share of the whole
    sum (inverse transform sampling: Devroye, Non-Uniform Random Variate Generation, 1986, II.2)."""
    shares = torch.rand(len(probs), 1, dtype=torch.float64, device=probs.device)
    for row, generator in generators.items():
        shares[row].uniform_(generator=generator)
    sums = probs.cumsum(-1, dtype=torch.float64)
    # 1 - shares is never 0, so that no token of probability 0 is drawn.
    drawn = torch.searchsorted(sums, (1 - shares) * sums[:, -1:])
    return drawn.view(-1).clamp_(max=probs.shape[-1] - 1)  # NaN is beyond all sums
