# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding with a key/value cache that the caller owns."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

Forward = Callable[..., Any]
Change = Callable[[torch.Tensor], torch.Tensor]


def static_cache(model: torch.nn.Module, length: int, batch: int = 1) -> Any:
    """Returns a cache of fixed size for ``length`` positions. It is allocated at once, because a compiled step updates
    it in place."""
    from transformers import StaticCache

    config = model.config
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = StaticCache(config=config, max_cache_len=length)
    cache.early_initialization(batch, config.num_key_value_heads, head_size, model.dtype, model.device)
    return cache


@torch.no_grad()
def next_token(forward: Forward, cache: Any, input_ids: torch.Tensor, change: Change | None = None) -> torch.Tensor:
    """Appends ``input_ids`` [batch, length] to ``cache`` and returns the most likely next tokens [batch, 1], after
    applying ``change`` to their logits [batch, 1, words]."""
    output = forward(input_ids=input_ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    logits = output.logits[:, -1:]
    return (logits if change is None else change(logits)).argmax(-1)


def less_likely(tokens: Collection[int], penalty: float) -> Change:
    """Returns a change of logits that makes ``tokens`` less likely, by the rule of transformers'
    ``repetition_penalty``."""
    seen = torch.tensor(sorted(set(tokens)), dtype=torch.int64)

    def change(logits: torch.Tensor) -> torch.Tensor:
        index = seen.to(logits.device)
        chosen = logits[..., index]
        return logits.index_copy(-1, index, torch.where(chosen < 0, chosen * penalty, chosen / penalty))

    return change


def greedy(
    forward: Forward,
    cache: Any,
    prompt: torch.Tensor,
    limit: int,
    stop: Collection[int] = (),
    penalty: float = 1.0,
) -> Iterator[int]:
    """Yields at most ``limit`` tokens that follow ``prompt`` [1, length]; ends before a token in ``stop``.

    ``forward`` is a causal language model of transformers or its compiled form; ``cache`` must be empty. A ``penalty``
    above 1 makes tokens less likely that it has said before.
    """
    given, said = prompt, []
    for _ in range(limit):
        token = next_token(forward, cache, given, less_likely(said, penalty) if penalty != 1 and said else None)
        value = int(token)
        if value in stop:
            return
        yield value
        said.append(value)
        given = token


@dataclass
class Timed:
    """The tokens of one generation, and for each token the seconds that the generation itself had taken until then."""

    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def record(self, stream: Iterator[int]) -> Iterator[int]:
        """Passes ``stream`` through. Time that passes between its tokens does not count."""
        taken = 0.0
        while True:
            start = time.perf_counter()
            token = next(stream, None)
            if token is None:
                return
            taken += time.perf_counter() - start
            self.tokens.append(token)
            self.times.append(taken)
            yield token

    @property
    def first_token_seconds(self) -> float:
        return self.times[0] if self.times else float("nan")

    @property
    def tokens_per_second(self) -> float:
        """The rate of the decode steps, without the first token (prompt processing); nan below two tokens."""
        if len(self.times) < 2:
            return float("nan")
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])


def in_turns(*streams: Iterator[int], turn: int = 8) -> None:
    """Runs all streams to their ends, ``turn`` tokens of each at a time, so that other load of the machine affects all
    of them alike."""
    left = list(streams)
    while left:
        left = [stream for stream in left if len(list(itertools.islice(stream, turn))) == turn]
