# SPDX-License-Identifier: Apache-2.0
"""Adapters of low rank with random weights, in the files that peft writes."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

RANK = 8
ALPHA = 16
TARGETS = ("q_proj", "v_proj", "gate_proj", "down_proj")


def weights(model: torch.nn.Module, seed: int, size: float) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """From the name of each adapted layer of ``model`` to the two factors of what is added to its weight. Their values
    have the standard deviation ``size``."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * size).bfloat16()

    layers = [(name, layer) for name, layer in model.named_modules() if name.endswith(TARGETS)]
    return {name: (random(RANK, layer.in_features), random(layer.out_features, RANK)) for name, layer in layers}


def write(factors: dict[str, tuple[torch.Tensor, torch.Tensor]], folder: Path) -> None:
    folder.mkdir()
    tensors = {}
    for name, (a, b) in factors.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = a
        tensors[f"base_model.model.{name}.lora_B.weight"] = b
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": TARGETS, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def merge(model: torch.nn.Module, factors: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Adds to the weights of ``model`` what the adapter adds."""
    with torch.no_grad():
        for name, (a, b) in factors.items():
            weight = model.get_submodule(name).weight
            weight.copy_(weight.float() + ALPHA / RANK * (b.float() @ a.float()))
