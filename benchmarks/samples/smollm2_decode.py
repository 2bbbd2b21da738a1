# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``smollm2_decode``, whose arguments are SIDE FOLDER PROMPT FORM BATCH STEPS.

FOLDER and PROMPT are those of ``smollm2_models.Files``. Each of the BATCH sequences begins with the prompt. Prints
JSON: the median seconds of a greedy decode step after the prompt, and the relative error of the first step's logits.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import machine, peers
from benchmarks.model_case import relative_error
from benchmarks.samples import smollm2

WARM_UP_STEPS = 8
Step = Callable[[torch.Tensor], torch.Tensor]  # tokens [batch, 1] -> logits [batch, vocabulary]


@torch.no_grad()
def main(side: str, folder: str, prompt_file: str, form: str, batch_text: str, steps_text: str) -> None:
    machine.use_pinned_threads()
    batch, steps = int(batch_text), int(steps_text)
    prompt, reference = torch.load(prompt_file)
    prompt = prompt.expand(batch, -1)
    prepare = llama if side == peers.LLAMA else torch_model
    step = prepare(side, Path(folder), form, prompt[:, :-1], prompt.shape[1] + steps + 1)
    logits = step(prompt[:, -1:])
    expected = reference.reshape(1, -1).expand(batch, -1)
    error = relative_error(logits.float().reshape(expected.shape), expected)
    taken = []
    for _ in range(steps):
        tokens = logits.reshape(batch, -1).argmax(-1, keepdim=True)
        start = time.perf_counter()
        logits = step(tokens)
        taken.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(taken[WARM_UP_STEPS:]), "error": error}))


def torch_model(side: str, folder: Path, form: str, prompt: torch.Tensor, length: int) -> Step:
    """Returns a decode step on a static cache of ``length`` positions that holds ``prompt``."""
    from npugraph.demo import generate

    model = smollm2.load(side, folder, form)
    cache = generate.static_cache(model, length, prompt.shape[0])
    model(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1)
    forward = smollm2.compiled(side, model)

    def step(tokens: torch.Tensor) -> torch.Tensor:
        return forward(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]

    return step


def llama(_side: str, folder: Path, _form: str, prompt: torch.Tensor, length: int) -> Step:
    model = smollm2.Llama(folder, length)
    model.read(prompt[0].tolist())
    return lambda tokens: model.step(int(tokens))


if __name__ == "__main__":
    main(*sys.argv[1:])
