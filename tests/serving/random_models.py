# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights that are sure of what they generate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import tiny_models
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW_TOKENS = 12
_CANDIDATES = (
    "The capital of France is",
    "Hello, how are you?",
    "Once upon a time",
    "One two three",
    "Water boils at",
    "My name is",
    "It was a dark night",
    "The quick brown fox",
    "To be or not to be",
    "import torch",
    "How many",
    "The sea is blue",
)
# The tokens that are generated. Few of them have greater gaps between their logits than many.
_GENERATED = slice(1000, 1016)
# The least gap between the two greatest logits, in standard deviations of the logits of these tokens. The sums of
# several ranks round differently, and move logits by less than this.
_GAP = 0.06
_ENOUGH = 2


def write(folder: Path, tokenizer_of: str, family: str) -> None:
    """Writes a model of a family of examples/serving/tiny_models.py in bf16, with the tokenizer of another model."""
    tiny_models.write(family, Path(tokenizer_of), folder, torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    with torch.no_grad():
        generated = model.lm_head.weight[_GENERATED].clone()
        model.lm_head.weight.zero_()[_GENERATED] = generated
    model.save_pretrained(folder)


def generated_by_transformers(
    folder: Path,
    change: Callable[[torch.nn.Module], None] = lambda _: None,
    least: int = NEW_TOKENS,
    least_gap: float = _GAP,
) -> dict[str, list[int]]:
    """Two prompts, and the tokens that follow each, taken greedily: from ``least`` to NEW_TOKENS. They are the same in
    bf16 and in fp32, and do not depend on rounding that moves the two greatest logits of either by less than
    ``least_gap``. ``change`` changes the model before it generates."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    coarse, fine = (AutoModelForCausalLM.from_pretrained(folder, dtype=dtype) for dtype in (torch.bfloat16, None))
    fine = fine.float()
    for model in (coarse, fine):
        change(model)
    results: dict[str, list[int]] = {}
    for prompt in _CANDIDATES:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        (tokens, gaps), (exact, exact_gaps) = (_generate(model, ids) for model in (coarse, fine))
        steps = zip(tokens, exact, map(min, gaps, exact_gaps), strict=True)
        sure = [token for token, _, _ in takewhile(lambda step: step[0] == step[1] and step[2] >= least_gap, steps)]
        if len(sure) >= least:
            results[prompt] = sure
        if len(results) == _ENOUGH:
            return results
    raise AssertionError(f"{folder}: only {len(results)} prompts have tokens that do not depend on rounding")


def _generate(model: torch.nn.Module, ids: torch.Tensor) -> tuple[list[int], list[float]]:
    """NEW_TOKENS tokens, and for each how far its logit is from the next one, in standard deviations."""
    result = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    logits = torch.cat(result.logits).float()[:, _GENERATED]
    first, second = logits.topk(2).values.unbind(-1)
    return result.sequences[0, ids.shape[1] :].tolist(), ((first - second) / logits.std(-1)).tolist()
