# SPDX-License-Identifier: Apache-2.0
"""Measures a decoded token of SmolLM2-135M-Instruct (real weights, batch 1, static cache) after 128 and after 1,500
tokens: in fp32, bf16 and f16, and from the blocks of its own GGUF file. Eager torch cannot read the blocks and runs
dequantised weights.

Every sample is a fresh process; the sides take turns.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks import machine, peers, processes, sides
from benchmarks.harness import Request, Result
from benchmarks.model_case import ERROR_FACTORS, run64
from npugraph.demo import smollm2

NAME = "smollm2_decode"
CONTEXTS, QUICK_CONTEXTS = (128, 1500), (128,)
QUANTISED = "q4_1"
DTYPES = ("float32", "bfloat16", "float16", QUANTISED)
TORCH_SIDES = (*sides.DEFAULT_SIDES, *peers.INDUCTOR, "zentorch")
QUANTISED_SIDES = ("eager", peers.LLAMA, peers.OURS, peers.OURS_INT8)
ROUNDS, QUICK_ROUNDS = 3, 1
STEPS = 64


def run(request: Request) -> Iterator[Result]:
    contexts = {
        context: [dtype for dtype in DTYPES if request.wants(NAME, f"{context} tokens {dtype}")]
        for context in (QUICK_CONTEXTS if request.quick else CONTEXTS)
    }
    if not any(contexts.values()):
        return
    quick = request.quick
    limits = machine.Limits()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wide = write_model(folder).double()
        for context, dtypes in contexts.items():
            prompt = {"input_ids": torch.arange(100, 100 + context)[None], "logits_to_keep": 1, "use_cache": False}
            torch.save((prompt["input_ids"], run64(wide, prompt)[0]), folder / "prompt.pt")
            for dtype in dtypes:
                known = QUANTISED_SIDES if dtype == QUANTISED else TORCH_SIDES
                chosen = [side for side in request.sides if side in known and not (quick and side == "inductor")]
                result = compare(folder, context, dtype, chosen, QUICK_ROUNDS if quick else ROUNDS)
                result.limit = "MBU"
                result.limit_seconds = bytes_of_a_step(folder, context, dtype) / limits.beside("read")
                yield result


def write_model(folder: Path) -> torch.nn.Module:
    """Writes the dequantised fp32 weights, which every process can load fast, and beside them a link to the GGUF file
    that they come from. Returns the model."""
    model = smollm2.load_model()
    config = copy.copy(model.config)
    del config.quantization_config
    config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "weights.pt")
    (folder / "model.gguf").symlink_to(smollm2.weights_file())
    return model


def compare(folder: Path, context: int, dtype: str, side_names: Sequence[str], rounds: int) -> Result:
    def take(side: str) -> processes.Sample:
        arguments = (side, folder, dtype, STEPS)
        return processes.run_module("benchmarks.samples.smollm2_decode", arguments, peers.interpreter(side))

    result = processes.compare(NAME, f"{context} tokens {dtype}", side_names, rounds, take)
    result.notes["tokens/s"] = ", ".join(f"{side.name} {1 / side.median:.1f}" for side in result.sides)
    if dtype == QUANTISED:  # llama.cpp quantises activations, so its error sets the bound
        result.baseline = peers.LLAMA if result.side(peers.LLAMA) else "eager"
    else:
        result.error_factor = ERROR_FACTORS[dtype]
    return result


def bytes_of_a_step(folder: Path, context: int, dtype: str) -> float:
    """Returns the bytes that a step must read: every weight once (the embedding is the output layer, too), and the keys
    and values of ``context`` tokens."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    element = 2 if dtype in ("bfloat16", "float16") else 4
    cached = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * context * element
    if dtype == QUANTISED:
        return (folder / "model.gguf").stat().st_size + cached
    return (folder / "weights.pt").stat().st_size * element / 4 + cached
