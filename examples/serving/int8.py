# SPDX-License-Identifier: Apache-2.0
"""Writes a model with weights of int8 (W8A8), which vLLM loads, from the folder of a model with weights of floats.

    python examples/serving/int8.py FOLDER INT8_FOLDER

Each row of the weight of a projection has a scale: its largest magnitude is 127 of them. Each token of the input of a
projection gets a scale when the model runs. The format is "int-quantized" of the package compressed-tensors.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
SCHEME = {"num_bits": 8, "type": "int", "symmetric": True}
QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {**SCHEME, "strategy": "channel", "dynamic": False},
            "input_activations": {**SCHEME, "strategy": "token", "dynamic": True},
        }
    },
    "ignore": ["lm_head"],
}


def write(source: Path, folder: Path) -> None:
    """Writes the model of ``source`` with int8 weights into ``folder``, which must not exist. ``source`` has its
    weights in one file."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(WEIGHTS))
    weights = {}
    for name, weight in load_file(source / WEIGHTS).items():
        if name.endswith("_proj.weight"):
            scale = weight.float().abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127
            weights[name] = (weight.float() / scale).round().to(torch.int8)
            weights[f"{name}_scale"] = scale.to(weight.dtype)
        else:
            weights[name] = weight
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": QUANTIZATION}, indent=2))


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:3]))
