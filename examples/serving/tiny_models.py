# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny model of a family with random weights as a folder that vLLM loads, fp32, to try a family without its
weights. Its texts make no sense.

    python examples/serving/tiny_models.py FAMILY TOKENIZER FOLDER

FAMILY is one of those that --help names, and TOKENIZER a folder with a tokenizer, such as the one that smollm2.py
writes. The folder is for vLLM with the same major version of transformers, because versions 4 and 5 write
configurations differently.
"""

import argparse
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DeepseekV3Config,
    Gemma3TextConfig,
    PretrainedConfig,
    Qwen3Config,
    Qwen3MoeConfig,
)

COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
DENSE = COMMON | {"num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 128}
EXPERTS = {"num_experts_per_tok": 2, "norm_topk_prob": True, "moe_intermediate_size": 32}

FAMILIES: dict[str, tuple[type[PretrainedConfig], dict]] = {
    "qwen3": (Qwen3Config, DENSE),
    "qwen3-moe": (Qwen3MoeConfig, DENSE | EXPERTS | {"num_experts": 8}),
    # Latent attention, a dense layer, and a layer with groups of experts and a shared expert.
    "deepseek-v3": (
        DeepseekV3Config,
        COMMON
        | EXPERTS
        | {
            "num_key_value_heads": 4,
            "intermediate_size": 128,
            "q_lora_rank": 32,
            "kv_lora_rank": 64,
            "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 16,
            "v_head_dim": 32,
            "first_k_dense_replace": 1,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "n_group": 2,
            "topk_group": 1,
            "topk_method": "noaux_tc",  # vLLM and the original code read these two
            "scoring_func": "sigmoid",
        },
    ),
    # A layer that sees 16 tokens, and one that sees all.
    "gemma3": (
        Gemma3TextConfig,
        DENSE | {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}


def write(family: str, tokenizer: Path, folder: Path, dtype: torch.dtype = torch.float32, **sizes: int) -> None:
    """Writes weights, configuration and tokenizer into ``folder``, which is made if it does not exist. ``sizes`` take
    the place of those in FAMILIES."""
    words = AutoTokenizer.from_pretrained(tokenizer)
    make, settings = FAMILIES[family]
    ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    config = make(vocab_size=len(words), **ends, **(settings | sizes))
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    _randomise(model)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def _randomise(model: torch.nn.Module) -> None:
    """Gives the model weights that keep the size of what passes through, so that its tokens differ."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                weight += 0.2 * noise
            else:
                weight.copy_(noise * weight.shape[-1] ** -0.5)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    write(arguments.family, arguments.tokenizer, arguments.folder)
