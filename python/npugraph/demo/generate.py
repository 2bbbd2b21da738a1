# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding with a key/value cache that the caller owns."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

Forward = Callable[..., Any]


def static_cache(model: torch.nn.Module, length: int, batch: int = 1) -> Any:
    """A cache of fixed size for ``length`` positions, allocated now: a compiled step updates it in place."""
    from transformers import StaticCache

    config = model.config
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = StaticCache(config=config, max_cache_len=length)
    cache.early_initialization(batch, config.num_key_value_heads, head_size, model.dtype, model.device)
    return cache


@torch.no_grad()
def next_token(forward: Forward, cache: Any, input_ids: torch.Tensor) -> torch.Tensor:
    """Appends ``input_ids`` [batch, length] to ``cache`` and returns the most likely next tokens [batch, 1]."""
    output = forward(input_ids=input_ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return output.logits[:, -1:].argmax(-1)


def greedy(forward: Forward, cache: Any, prompt: torch.Tensor, limit: int, stop: Collection[int] = ()) -> Iterator[int]:
    """Yields at most ``limit`` tokens that follow ``prompt`` [1, length]; ends before a token in ``stop``.

    ``forward`` is a causal language model of transformers or its compiled form; ``cache`` must be empty.
    """
    token = next_token(forward, cache, prompt)
    for position in range(limit):
        value = int(token)
        if value in stop:
            return
        yield value
        if position + 1 < limit:
            token = next_token(forward, cache, token)


@dataclass
class Timed:
    """Tokens of one generation with their times in seconds since its start."""

    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def record(self, stream: Iterator[int]) -> Iterator[int]:
        """Passes ``stream`` through and notes when each token came."""
        start = time.perf_counter()
        for token in stream:
            self.tokens.append(token)
            self.times.append(time.perf_counter() - start)
            yield token

    @property
    def first_token_seconds(self) -> float:
        return self.times[0] if self.times else float("nan")

    @property
    def tokens_per_second(self) -> float:
        """Rate of the decode steps, the first token (prompt processing) left out; nan below two tokens."""
        if len(self.times) < 2:
            return float("nan")
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])
