# SPDX-License-Identifier: Apache-2.0
"""Seconds per decoded token of SmolLM2-135M-Instruct (real weights, fp32, batch 1) on a static cache."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import torch

from benchmarks import sides
from benchmarks.harness import Result, Side, measure
from benchmarks.model_case import relative_error, run64
from npugraph.demo import generate, smollm2

NAME = "smollm2_decode"
PROMPT_LENGTH = 32
STEPS = 64


def run(side_names: Sequence[str], samples: int, quick: bool) -> Iterator[Result]:
    slow = {"inductor"} if quick else set()
    model = smollm2.load_model()
    prompt = torch.arange(100, 100 + PROMPT_LENGTH)[None]
    reference = run64(copy.deepcopy(model).double(), {"input_ids": prompt, "logits_to_keep": 1})[0]
    compared = [decode_side(model, prompt, name, reference) for name in side_names if name not in slow]
    result = measure(NAME, "fp32", compared, samples, most_calls=STEPS // 4 if quick else STEPS)
    rates = (f"{side.name} {1 / side.median:.1f}" for side in result.sides)
    result.notes["tokens/s"] = ", ".join(rates)
    yield result


def decode_side(model: torch.nn.Module, prompt: torch.Tensor, name: str, reference: torch.Tensor) -> Side:
    """A side whose call is one decode step; ahead of every sample the cache is brought back to the prompt's end.

    The error is that of the logits after the prompt's last token, taken as a decode step.
    """
    forward = sides.prepare(name, model)
    cache = generate.static_cache(model, PROMPT_LENGTH + STEPS + 1)
    token = prompt[:, -1:]

    def before() -> None:
        cache.reset()
        generate.next_token(model, cache, prompt[:, :-1])

    before()
    logits = forward(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    error = relative_error(logits, reference)
    return Side(name, lambda: generate.next_token(forward, cache, token), before, error)
