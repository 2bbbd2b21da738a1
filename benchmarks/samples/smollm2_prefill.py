# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``smollm2_prefill``, whose arguments are SIDE FOLDER PROMPT FORM CALLS.

FOLDER and PROMPT are those of ``smollm2_models.Files``. Prints JSON: the median seconds of a call that reads the
prompt, and the relative error of the logits after it.
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

WARM_UP_CALLS = 3


@torch.no_grad()
def main(side: str, folder: str, prompt_file: str, form: str, calls: str) -> None:
    machine.use_pinned_threads()
    prompt, reference = torch.load(prompt_file)
    read = reader(side, Path(folder), form, prompt)
    error = relative_error(read().float().reshape(reference.shape), reference)
    taken = []
    for _ in range(WARM_UP_CALLS + int(calls)):
        start = time.perf_counter()
        read()
        taken.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(taken[WARM_UP_CALLS:]), "error": error}))


def reader(side: str, folder: Path, form: str, prompt: torch.Tensor) -> Callable[[], torch.Tensor]:
    if side == peers.LLAMA:
        model, tokens = smollm2.Llama(folder, prompt.shape[1]), prompt[0].tolist()
        return lambda: model.read(tokens)
    forward = smollm2.compiled(side, smollm2.load(side, folder, form))
    return lambda: forward(input_ids=prompt, use_cache=False, logits_to_keep=1).logits


if __name__ == "__main__":
    main(*sys.argv[1:])
