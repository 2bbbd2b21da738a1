# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``ge_instructions`` under valgrind: python -m benchmarks.samples.ge_instructions SIDE MODEL.

Counts the instructions of calls alone, in the first dump of callgrind, and prints the number of calls as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from typing import Any

import torch

from benchmarks.models import CASES
from npugraph.demo import smollm2

SIDES = ("npugraph_ex", "torchair")
BATCH = 2
PROMPT = 16  # tokens
CALLS_BEFORE, CALLS = 3, 10


def control(*arguments: str) -> None:
    """Tells the valgrind around this process to do something."""
    subprocess.run(["callgrind_control", *arguments, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


def model_and_inputs(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model and the arguments of its calls. SmolLM2 has its own weights, the others have the tiny size."""
    if name != "smollm2":
        case = CASES[name]
        return case.build(), case.inputs(BATCH)
    model = smollm2.load_model()
    tokens = torch.arange(PROMPT).unsqueeze(0)
    return model, {"input_ids": tokens, "use_cache": False, "logits_to_keep": 1}


@torch.no_grad()
def main(side: str, name: str) -> None:
    torch.set_num_threads(1)
    model, inputs = model_and_inputs(name)
    backend: Any = side
    if side == "torchair":
        import torchair

        backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(model, backend=backend, dynamic=True)
    for _ in range(CALLS_BEFORE):
        compiled(**inputs)
    gc.collect()
    gc.disable()
    control("--instr=on")
    control("--zero")
    for _ in range(CALLS):
        compiled(**inputs)
    control("--dump")
    control("--instr=off")
    print(json.dumps({"calls": CALLS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
