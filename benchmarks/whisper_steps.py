# SPDX-License-Identifier: Apache-2.0
"""Whisper in the two forms of the model set: its encoder, and one decode step on given key/value caches."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

PAST_LENGTH = 12  # tokens decoded before the measured step


class WhisperDecodeStep(torch.nn.Module):
    """One decode step as a pure function: caches come in as tensors, grown caches go out with the logits."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        encoder_hidden: torch.Tensor,
        past: list[torch.Tensor],
        cross: list[torch.Tensor],
    ) -> tuple[Any, ...]:
        """``input_ids`` is [batch, 1]. ``past`` and ``cross`` hold keys, values, keys, ... by layer, each [batch,
        heads, length, head size]."""
        config = self.model.config
        cache = EncoderDecoderCache(
            DynamicCache(list(zip(past[::2], past[1::2], strict=True)), config=config),
            DynamicCache(list(zip(cross[::2], cross[1::2], strict=True)), config=config),
        )
        output = self.model(decoder_input_ids=input_ids, encoder_outputs=(encoder_hidden,), past_key_values=cache)
        layers = cache.self_attention_cache.layers
        return output.logits, *(tensor for layer in layers for tensor in (layer.keys, layer.values))


def normal(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def encoder_inputs(config: Any, batch: int, size: str) -> dict[str, Any]:
    """Returns a log-mel spectrogram [batch, mel bins, two frames for each source position]."""
    return {"input_features": normal((batch, config.num_mel_bins, 2 * config.max_source_positions), seed=1)}


def decode_inputs(config: Any, batch: int, size: str) -> dict[str, Any]:
    """Returns a token, the encoder's output, and caches of 12 past tokens and of the whole source."""
    heads = config.decoder_attention_heads
    head_size = config.d_model // heads
    count = 2 * config.decoder_layers

    def cache(length: int, seed: int) -> list[torch.Tensor]:
        return [normal((batch, heads, length, head_size), seed + i) for i in range(count)]

    return {
        "input_ids": torch.arange(5, 5 + batch)[:, None],
        "encoder_hidden": normal((batch, config.max_source_positions, config.d_model), seed=2),
        "past": cache(PAST_LENGTH, seed=100),
        "cross": cache(config.max_source_positions, seed=200),
    }
