# SPDX-License-Identifier: Apache-2.0
"""Greedy tokens of several models, with npugraph_ex on, and the tasks of their Programs, as JSON on a line for each.
One process loads vLLM once, and each model has an engine in a process of its own. usage: batch.py PROMPTS LENGTH
ARGUMENTS..., all of them JSON, and the last ones arguments of LLM."""

import json
import sys

from ranks import tasks
from vllm import LLM, SamplingParams

SETTINGS = {"npugraph_ex_config": {"enable": True, "enable_static_kernel": True}}


def captures(worker):
    from npugraph import _C

    return _C.process_counters().get("captures_in_graphs", 0)


if __name__ == "__main__":
    prompts, length, *models = map(json.loads, sys.argv[1:])
    for arguments in models:
        model = LLM(**arguments, additional_config=SETTINGS)
        outputs = model.generate(prompts, SamplingParams(temperature=0, max_tokens=length, ignore_eos=True))
        tokens = [list(output.outputs[0].token_ids) for output in outputs]
        (captured,), (of_programs,) = model.collective_rpc(captures), model.collective_rpc(tasks)
        print(json.dumps({"tokens": tokens, "captures": captured, "tasks": of_programs}), flush=True)
        del model  # its engine ends before the next one starts
