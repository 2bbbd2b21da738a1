# SPDX-License-Identifier: Apache-2.0
"""Has transformers answer requests in batches: python -m benchmarks.samples.serving_generate FOLDER LOAD.

LOAD and what is printed are those of ``serving_client``. The first request of each user is one batch, the second ones
are the next batch, and so on. A batch is answered when the last of its requests is.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation import BaseStreamer

from benchmarks import machine

WARM_UP_TOKENS = 2
Body = dict[str, Any]


class Clock(BaseStreamer):
    """Notes when tokens arrive. ``put`` is called with the prompts first."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self._start = time.perf_counter()

    def put(self, value: torch.Tensor) -> None:
        self.arrivals.append(time.perf_counter() - self._start)

    def end(self) -> None:
        pass


@torch.no_grad()
def main(folder: str, load: str) -> None:
    machine.use_pinned_threads()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    model.generation_config.eos_token_id = None  # as ignore_eos of the servers
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batches: list[tuple[Body, ...]] = list(zip(*json.loads(Path(load).read_text()), strict=True))
    generate(model, batches[0], WARM_UP_TOKENS)

    start = time.perf_counter()
    generated = [generate(model, batch, max(body["max_tokens"] for body in batch)) for batch in batches]
    seconds = time.perf_counter() - start
    answered = [
        [answer(tokenizer, body, row, arrivals) for body, row in zip(batch, rows, strict=True)]
        for batch, (rows, arrivals) in zip(batches, generated, strict=True)
    ]
    print(json.dumps({"seconds": seconds, "answers": list(zip(*answered, strict=True))}))


def generate(model: Any, batch: tuple[Body, ...], tokens: int) -> tuple[list[list[int]], list[float]]:
    """Returns ``tokens`` new tokens for each request of ``batch``, and when they arrived."""
    length = max(len(body["prompt"]) for body in batch)
    ids = torch.tensor([[0] * (length - len(body["prompt"])) + body["prompt"] for body in batch])
    mask = torch.tensor([[0] * (length - len(body["prompt"])) + [1] * len(body["prompt"]) for body in batch])
    clock = Clock()
    result = model.generate(
        ids,
        attention_mask=mask,
        do_sample=False,
        max_new_tokens=tokens,
        pad_token_id=0,
        streamer=clock,
    )
    return result[:, length:].tolist(), clock.arrivals[1:]


def answer(tokenizer: Any, body: Body, row: list[int], arrivals: list[float]) -> dict[str, Any]:
    count = body["max_tokens"]
    return {
        "text": tokenizer.decode(row[:count], skip_special_tokens=True),
        "tokens": count,
        "arrivals": arrivals[:count],
        "ids": row[:count],
        "top": [],
        "failure": None,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
