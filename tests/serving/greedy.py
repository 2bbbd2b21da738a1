# SPDX-License-Identifier: Apache-2.0
"""Whether a text is what a model generates greedily, on any machine."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.serving_soak import CLOSE


class Reference:
    """A model of transformers with the weights of a folder, which computes in fp32."""

    def __init__(self, folder: str) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def check(self, prompt: str, text: str, length: int) -> None:
        """Asserts that ``text`` has ``length`` tokens, and that each is the best one after the tokens before it, or has
        a logit within CLOSE of the best one. Of tokens that are this close, transformers itself chooses in bf16 by the
        processor's order of sums."""
        start, ids = (self.tokenizer(part, return_tensors="pt")["input_ids"][0] for part in (prompt, prompt + text))
        torch.testing.assert_close(ids[: len(start)], start)
        generated = ids[len(start) :]
        assert len(generated) == length, text
        with torch.no_grad():
            logits = self.model(ids[None]).logits[0, len(start) - 1 : -1]
        behind = logits.amax(-1) - logits.gather(1, generated[:, None])[:, 0]
        expected = self.tokenizer.batch_decode(logits.argmax(-1)[:, None])
        assert bool((behind <= CLOSE).all()), f"{text!r}: best tokens {expected}, logits behind by {behind.tolist()}"
