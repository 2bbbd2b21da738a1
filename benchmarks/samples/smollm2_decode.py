# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``smollm2_decode``: python -m benchmarks.samples.smollm2_decode SIDE FOLDER DTYPE STEPS.

FOLDER holds the model (``smollm2_decode.write_model``) and ``prompt.pt``: token ids, and the float64 logits after them.
Prints JSON: the median seconds of a greedy decode step after the prompt, and the relative error of the first step's
logits.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import torch

from benchmarks import machine, peers
from benchmarks.model_case import relative_error

WARM_UP_STEPS = 8
Step = Callable[[int], torch.Tensor]  # token -> logits [vocabulary]


@torch.no_grad()
def main(side: str, folder_name: str, dtype: str, steps_text: str) -> None:
    machine.use_pinned_threads()
    folder, steps = Path(folder_name), int(steps_text)
    prompt, reference = torch.load(folder / "prompt.pt")
    prepare = llama if side == peers.LLAMA else torch_model
    step = prepare(side, folder, dtype, prompt[:, :-1], prompt.shape[1] + steps + 1)
    logits = step(int(prompt[0, -1]))
    error = relative_error(logits.float().reshape(reference.shape), reference)
    taken = []
    for _ in range(steps):
        token = int(logits.argmax())
        start = time.perf_counter()
        logits = step(token)
        taken.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(taken[WARM_UP_STEPS:]), "error": error}))


def torch_model(side: str, folder: Path, dtype: str, prompt: torch.Tensor, length: int) -> Step:
    """Returns a decode step on a static cache of ``length`` positions that holds ``prompt``."""
    from npugraph import gguf
    from npugraph.demo import generate

    if hasattr(torch, dtype) or side == "eager":
        from transformers import AutoConfig, AutoModelForCausalLM

        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        model.load_state_dict(torch.load(folder / "weights.pt", mmap=True))
        model = model.to(getattr(torch, dtype, torch.float32)).eval().requires_grad_(False)
    else:
        model = gguf.load(folder / "model.gguf", int8=side == peers.OURS_INT8)
    cache = generate.static_cache(model, length)
    generate.next_token(model, cache, prompt)
    forward = peers.compiled(peers.OURS if side == peers.OURS_INT8 else side, model)

    def step(token: int) -> torch.Tensor:
        ids = torch.tensor([[token]])
        return forward(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]

    return step


def llama(_side: str, folder: Path, _dtype: str, prompt: torch.Tensor, length: int) -> Step:
    import llama_cpp

    threads = torch.get_num_threads()
    llm = llama_cpp.Llama(
        str(folder / "model.gguf"), n_ctx=length, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False
    )
    llm.eval(prompt[0].tolist())
    ids = (llama_cpp.llama_token * 1)()
    vocabulary = llm.n_vocab()

    def step(token: int) -> torch.Tensor:
        ids[0] = token
        if llama_cpp.llama_decode(llm.ctx, llama_cpp.llama_batch_get_one(ids, 1)):
            raise RuntimeError("llama_decode failed")
        logits = llama_cpp.llama_get_logits_ith(llm.ctx, -1)
        values = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float * vocabulary)).contents
        return torch.from_numpy(numpy.frombuffer(values, dtype=numpy.float32).copy())

    return step


if __name__ == "__main__":
    main(*sys.argv[1:])
