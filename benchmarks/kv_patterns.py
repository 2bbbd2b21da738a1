# SPDX-License-Identifier: Apache-2.0
"""The ways in which programs keep the keys and values of earlier tokens, each as a decode step of four small layers.

Heads are grouped (8 query heads share 2 key heads), and masks hide slots that are not filled yet. A cache holds 128
tokens when a step begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch.nn import functional

from benchmarks.model_case import Inputs
from benchmarks.special_models import StaticDecodeStep

LAYERS, HIDDEN, HEADS, KEY_HEADS, HEAD_SIZE = 4, 256, 8, 2, 64
POSITION = 128
Write = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any], None]


@dataclass(frozen=True)
class Pattern:
    """``model()`` builds the step. ``inputs(length)`` makes its arguments, with a cache that has room for ``length``
    tokens. ``rewind`` puts the cache back into its state before the first step. ``cloned`` says that Inductor copies
    the whole cache: to repeat its heads, or because it does not see that a part of a tensor may be written in place.
    ``forced(position)`` is the number of bytes that a step must copy when it writes the token number ``position``."""

    name: str
    model: Callable[[], torch.nn.Module]
    inputs: Callable[[int], Inputs]
    rewind: Callable[[Inputs], None] | None = None
    cloned: bool = False
    dynamic: bool | None = None
    forced: Callable[[int], int] = lambda position: 0


class Layer(torch.nn.Module):
    """Attention of one token to a cache [1, heads, length, head size], into which ``write`` has put the token
    before."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.write = write
        self.query = torch.nn.Linear(HIDDEN, HEADS * HEAD_SIZE, bias=False)
        self.key = torch.nn.Linear(HIDDEN, KEY_HEADS * HEAD_SIZE, bias=False)
        self.value = torch.nn.Linear(HIDDEN, KEY_HEADS * HEAD_SIZE, bias=False)
        self.output = torch.nn.Linear(HEADS * HEAD_SIZE, HIDDEN, bias=False)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: Any, mask: torch.Tensor
    ) -> torch.Tensor:
        query, key, value = (
            linear(x).view(1, 1, -1, HEAD_SIZE).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        self.write(keys, values, key, value, position)
        seen = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)
        return x + self.output(seen.transpose(1, 2).reshape(1, 1, -1))


class Step(torch.nn.Module):
    """A decode step. ``position`` is a number, or a tensor that holds one."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(write) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, cache: Sequence[torch.Tensor], position: Any) -> torch.Tensor:
        mask = (torch.arange(cache[0].shape[2]) <= position)[None, None, None]
        for index, layer in enumerate(self.layers):
            x = layer(x, cache[2 * index], cache[2 * index + 1], position, mask)
        return x


def write_index_put(keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: Any) -> None:
    keys[:, :, at] = key
    values[:, :, at] = value


def write_slice(keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: Any) -> None:
    keys[:, :, at : at + 1] = key
    values[:, :, at : at + 1] = value


def write_view(keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: Any) -> None:
    """Writes slots of a cache that lies in memory token by token."""
    for cache, new in ((keys, key), (values, value)):
        slots = cache.transpose(1, 2).view(-1, KEY_HEADS * HEAD_SIZE)
        slots.index_put_((at,), new.reshape(1, -1))


def write_index_copy(keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: Any) -> None:
    keys.index_copy_(2, at, key)
    values.index_copy_(2, at, value)


@torch.library.custom_op("benchmarks::write_cache", mutates_args=("keys", "values"))
def write_custom(
    keys: torch.Tensor, values: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: torch.Tensor
) -> None:
    write_index_copy(keys, values, key, value, at)


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def empty_cache(length: int, by_token: bool) -> torch.Tensor:
    if by_token:
        return torch.zeros(1, length, KEY_HEADS, HEAD_SIZE).transpose(1, 2)
    return torch.zeros(1, KEY_HEADS, length, HEAD_SIZE)


def fill(cache: torch.Tensor, seed: int) -> torch.Tensor:
    """Fills the first POSITION tokens of a cache. Marks it static, because its length is the program's choice and does
    not change."""
    cache[:, :, :POSITION] = random(1, KEY_HEADS, POSITION, HEAD_SIZE, seed=seed)
    torch._dynamo.mark_static(cache)
    return cache


def step_inputs(length: int, as_number: bool = False, by_token: bool = False) -> Inputs:
    return {
        "x": random(1, 1, HIDDEN, seed=1),
        "cache": [fill(empty_cache(length, by_token), 2 + i) for i in range(2 * LAYERS)],
        "position": POSITION if as_number else torch.tensor([POSITION]),
    }


def stacked_inputs(length: int) -> Inputs:
    """Uses one tensor for all layers; each layer takes its part."""
    inputs = step_inputs(length)
    inputs["cache"] = torch.stack(inputs["cache"])
    torch._dynamo.mark_static(inputs["cache"])
    return inputs


CONFIG = transformers.LlamaConfig(
    vocab_size=256, hidden_size=HIDDEN, intermediate_size=512, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=KEY_HEADS, head_dim=HEAD_SIZE, max_position_embeddings=8192,
)  # fmt: skip


def static_inputs(length: int) -> Inputs:
    cache = transformers.StaticCache(config=CONFIG, max_cache_len=length)
    cache.early_initialization(1, KEY_HEADS, HEAD_SIZE, torch.float32, torch.device("cpu"))
    for index, layer in enumerate(cache.layers):
        fill(layer.keys, 2 + 2 * index)
        fill(layer.values, 3 + 2 * index)
    inputs = {"input_ids": torch.tensor([[7]]), "cache": cache}
    rewind_static(inputs)
    return inputs


def rewind_static(inputs: Inputs) -> None:
    for layer in inputs["cache"].layers:
        layer.cumulative_length.fill_(POSITION)


def growing_inputs(_length: int) -> Inputs:
    inputs = {"input_ids": torch.tensor([[7]])}
    rewind_growing(inputs)
    return inputs


def rewind_growing(inputs: Inputs) -> None:
    shape = (1, KEY_HEADS, POSITION, HEAD_SIZE)
    past = [(random(*shape, seed=2 + 2 * i), random(*shape, seed=3 + 2 * i)) for i in range(LAYERS)]
    inputs["cache"] = transformers.DynamicCache(past, config=CONFIG)


TOKEN_BYTES = 2 * LAYERS * KEY_HEADS * HEAD_SIZE * 4


def copied_by_cat(position: int) -> int:
    """Returns the bytes of all keys and values up to ``position``. The step's results are new tensors, and the old ones
    still belong to the caller while it runs."""
    return TOKEN_BYTES * (position + 1)


def llama() -> torch.nn.Module:
    return StaticDecodeStep(transformers.LlamaForCausalLM(CONFIG))


PATTERNS = (
    Pattern("StaticCache", llama, static_inputs, rewind_static, cloned=True),
    Pattern("index_put", lambda: Step(write_index_put), step_inputs),
    Pattern("slice + index_put", lambda: Step(write_index_put), stacked_inputs, cloned=True),
    Pattern(
        "slice",
        lambda: Step(write_slice),
        lambda length: step_inputs(length, as_number=True),
        forced=lambda _: TOKEN_BYTES,  # the program itself copies the token
    ),
    Pattern("view + index_put", lambda: Step(write_view), lambda length: step_inputs(length, by_token=True)),
    Pattern("index_copy", lambda: Step(write_index_copy), step_inputs),
    Pattern("custom operator", lambda: Step(write_custom), step_inputs),
    Pattern("cat", llama, growing_inputs, rewind_growing, dynamic=True, forced=copied_by_cat),
)
