# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 as each side of ``smollm2_decode`` and ``smollm2_prefill`` runs it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy
import torch

from benchmarks import peers


def load(side: str, folder: Path, form: str) -> torch.nn.Module:
    """Returns the model of ``folder`` (``smollm2_models.Files``) in the form that ``side`` runs."""
    from npugraph import gguf

    if not hasattr(torch, form) and side != "eager":
        return gguf.load(folder / "model.gguf", int8=side == peers.OURS_INT8)
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    model.load_state_dict(torch.load(folder / "weights.pt", mmap=True))
    return model.to(getattr(torch, form, torch.float32)).eval().requires_grad_(False)


def compiled(side: str, model: torch.nn.Module) -> Any:
    return peers.compiled(peers.OURS if side == peers.OURS_INT8 else side, model)


class Llama:
    """llama.cpp with a context of ``length`` tokens, all of which it may read at once up to 512."""

    def __init__(self, folder: Path, length: int) -> None:
        import llama_cpp

        self._cpp = llama_cpp
        threads = torch.get_num_threads()
        self._llm = llama_cpp.Llama(
            str(folder / "model.gguf"),
            n_ctx=length,
            n_batch=512,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
        )

    def read(self, tokens: list[int]) -> torch.Tensor:
        """Reads a prompt from position 0 on and returns the logits after it."""
        self._llm.reset()
        self._llm.eval(tokens)
        return self._logits()

    def step(self, token: int) -> torch.Tensor:
        ids = (self._cpp.llama_token * 1)(token)
        if self._cpp.llama_decode(self._llm.ctx, self._cpp.llama_batch_get_one(ids, 1)):
            raise RuntimeError("llama_decode failed")
        return self._logits()

    def _logits(self) -> torch.Tensor:
        logits = self._cpp.llama_get_logits_ith(self._llm.ctx, -1)
        values = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float * self._llm.n_vocab())).contents
        return torch.from_numpy(numpy.frombuffer(values, dtype=numpy.float32).copy())
