# SPDX-License-Identifier: Apache-2.0
"""The model set: 26 architectures from transformers with exact configurations and random weights.

``CASES`` maps a name to its :class:`ModelCase`. A ``base`` configuration is the published one of the model named in the
row. If the smallest published model does not fit a small machine, it is that model's shape cut down. ``long`` is
``base`` with 512 tokens instead of 128. Models with special weights or a special calling form are in
``special_models.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers

from benchmarks.model_case import Inputs, ModelCase
from benchmarks.whisper_steps import WhisperDecodeStep, decode_inputs, encoder_inputs

Config = Any
InputMaker = Callable[[Config, int, str], Inputs]

SEQUENCE = {"tiny": 16, "base": 128, "long": 512}
PADDING_STEP = 3  # row i of a batch is padded by 3 * i tokens
TINY = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY_FFN = TINY | {"intermediate_size": 160}


def generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(sum(name.encode()))


def token_ids(config: Config, batch: int, length: int) -> torch.Tensor:
    low = 5  # above the ids of padding, begin and end in every configuration here
    return torch.randint(low, config.vocab_size, (batch, length), generator=generator(config.model_type))


def text(config: Config, batch: int, size: str) -> Inputs:
    """Returns token ids with a padding mask. Row i is ``3 i`` tokens shorter."""
    length = SEQUENCE[size]
    lengths = length - PADDING_STEP * torch.arange(batch)
    mask = (torch.arange(length) < lengths[:, None]).long()
    return {"input_ids": token_ids(config, batch, length), "attention_mask": mask}


def short_text(config: Config, batch: int, size: str) -> Inputs:
    """Returns eight tokens and no mask. They are few because the graph unrolls the recurrence."""
    return {"input_ids": token_ids(config, batch, 8)}


def text_pair(config: Config, batch: int, size: str) -> Inputs:
    """Returns encoder text with a mask, and a decoder prompt a quarter as long."""
    decoder_ids = token_ids(config, batch, SEQUENCE[size] // 4)
    return text(config, batch, size) | {"decoder_input_ids": decoder_ids}


def image(config: Config, batch: int, size: str) -> Inputs:
    side = getattr(config, "image_size", None) or 224
    side = 64 if size == "tiny" and side == 224 else side
    pixels = torch.randn(batch, 3, side, side, generator=generator(config.model_type))
    return {"pixel_values": pixels}


def image_and_text(config: Config, batch: int, size: str) -> Inputs:
    side = config.vision_config.image_size
    pixels = torch.randn(batch, 3, side, side, generator=generator("clip"))
    length = min(SEQUENCE[size], config.text_config.max_position_embeddings)
    ids = token_ids(config.text_config, batch, length)
    ids[:, -1] = config.text_config.eos_token_id
    return {"input_ids": ids, "pixel_values": pixels, "attention_mask": torch.ones_like(ids)}


def row(
    name: str,
    model: str,
    inputs: InputMaker,
    base: Mapping[str, Any],
    tiny: Mapping[str, Any],
    wrap: Callable[[torch.nn.Module], torch.nn.Module] | None = None,
) -> ModelCase:
    """Makes a case of the transformers class ``model``. ``base`` and ``tiny`` are the arguments of its
    configuration."""
    model_class = getattr(transformers, model)

    def config(size: str) -> Config:
        return model_class.config_class(**(tiny if size == "tiny" else base))

    def make_model(size: str) -> torch.nn.Module:
        built = model_class(config(size))
        return wrap(built) if wrap else built

    return ModelCase(name, make_model, lambda batch, size: inputs(config(size), batch, size))


def llama_like(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, **rest: Any) -> Config:
    return {
        "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "tie_word_embeddings": True, **rest,
    }  # fmt: skip


TINY_LLAMA = llama_like(2, 64, 4, 2, 160, 128)
BASE_LLAMA = llama_like(30, 576, 9, 3, 1536, 49152)  # SmolLM2-135M

ENCODERS = [
    row("albert", "AlbertModel", text,  # albert-base-v2
        {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
        TINY_FFN | {"embedding_size": 32}),
    row("bert", "BertModel", text, {}, TINY_FFN),
    row("distilbert", "DistilBertModel", text, {},
        {"vocab_size": 128, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 160}),
    row("electra", "ElectraModel", text, {}, TINY_FFN | {"embedding_size": 32}),  # electra-small
    row("mobilebert", "MobileBertModel", text, {},
        TINY | {"intermediate_size": 128, "intra_bottleneck_size": 32, "embedding_size": 32,
                "num_feedforward_networks": 2}),
    row("roberta", "RobertaModel", text, {"vocab_size": 50265, "max_position_embeddings": 514},
        TINY_FFN | {"max_position_embeddings": 64}),
]  # fmt: skip

DECODERS = [
    row("gpt2", "GPT2LMHeadModel", text, {},
        {"vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}),
    row("gpt_neox", "GPTNeoXForCausalLM", text,  # pythia-160m
        {"vocab_size": 50304, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
         "intermediate_size": 3072},
        TINY_FFN),
    row("llama", "LlamaForCausalLM", text, BASE_LLAMA, TINY_LLAMA),
    row("mistral", "MistralForCausalLM", text,  # the layers of Mistral-7B at a quarter of its width
        llama_like(12, 1024, 16, 4, 3584, 32000, sliding_window=64), TINY_LLAMA | {"sliding_window": 8}),
    row("opt", "OPTForCausalLM", text, {},  # opt-125m
        TINY | {"ffn_dim": 160, "word_embed_proj_dim": 32}),
    row("phi", "PhiForCausalLM", text,  # phi-1 with 6 of its 24 layers
        {"num_hidden_layers": 6}, TINY_FFN | {"partial_rotary_factor": 0.5}),
    row("qwen2", "Qwen2ForCausalLM", text,  # Qwen2-0.5B
        llama_like(24, 896, 14, 2, 4864, 151936), TINY_LLAMA),
    row("qwen3", "Qwen3ForCausalLM", text,  # Qwen3-0.6B
        llama_like(28, 1024, 16, 8, 3072, 151936, head_dim=128), TINY_LLAMA | {"head_dim": 32}),
    row("xglm", "XGLMForCausalLM", text, {},  # xglm-564M
        {"vocab_size": 128, "d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 160}),
    row("mamba", "MambaForCausalLM", short_text,  # mamba-130m
        {"vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": 24},
        {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "time_step_rank": 8}),
]  # fmt: skip

BART_TINY = {
    "vocab_size": 128, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 160, "decoder_ffn_dim": 160,
}  # fmt: skip
BART_BASE = {
    "vocab_size": 50265, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6,
    "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
}  # fmt: skip
WHISPER_TINY = BART_TINY | {
    "num_mel_bins": 16, "max_source_positions": 24, "max_target_positions": 32, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3,
}  # fmt: skip
WHISPER_BASE = {  # whisper-base
    "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
}  # fmt: skip

ENCODER_DECODERS = [
    row("bart", "BartModel", text_pair, BART_BASE, BART_TINY),
    row("t5", "T5ForConditionalGeneration", text_pair, {},  # t5-small
        {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 2, "num_heads": 4}),
    row("t5_encoder", "T5EncoderModel", text,  # t5-base
        {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
        {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 2, "num_heads": 4}),
    row("whisper_encoder", "WhisperModel", encoder_inputs, WHISPER_BASE, WHISPER_TINY,
        wrap=lambda model: model.encoder),
    row("whisper_decode", "WhisperForConditionalGeneration", decode_inputs, WHISPER_BASE, WHISPER_TINY,
        wrap=WhisperDecodeStep),
]  # fmt: skip

TINY_VIT = TINY | {"image_size": 32, "patch_size": 8}

VISION = [
    row("vit", "ViTModel", image, {}, TINY_VIT | {"intermediate_size": 160}),
    row("swin", "SwinModel", image, {},  # swin-tiny
        {"image_size": 32, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4],
         "window_size": 4}),
    row("convnextv2", "ConvNextV2Model", image, {},  # convnextv2-tiny
        {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}),
    row("resnet", "ResNetModel", image, {},  # resnet-50
        {"embedding_size": 16, "hidden_sizes": [32, 48, 64, 96], "depths": [1, 2, 1, 1]}),
    row("mobilenet_v2", "MobileNetV2Model", image, {}, {"depth_multiplier": 0.35, "image_size": 64}),
    row("dinov2", "Dinov2Model", image, {}, TINY_VIT | {"mlp_ratio": 2}),
    row("clip", "CLIPModel", image_and_text, {},  # clip-vit-base-patch32
        {"text_config": TINY_FFN | {"max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2},
         "vision_config": TINY_VIT | {"intermediate_size": 160}, "projection_dim": 32}),
]  # fmt: skip

CASES: dict[str, ModelCase] = {case.name: case for case in ENCODERS + DECODERS + ENCODER_DECODERS + VISION}
