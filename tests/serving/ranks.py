# SPDX-License-Identifier: Apache-2.0
"""Generates with several ranks, greedily, then loses a worker in the middle of a request. Prints what came of it as
JSON on the last line. usage: ranks.py MODEL PROMPTS LENGTH ARGUMENTS      PROMPTS, ARGUMENTS of LLM: as JSON"""

import json
import os
import signal
import sys

import psutil
from vllm import LLM, SamplingParams


def process_of(worker):
    return os.getpid()


def tasks(worker):
    import npugraph

    return [(task.kind, task.name) for artifact in npugraph.artifacts() for task in artifact.tasks]


def lose_a_worker(model, victim):
    """Kills the process ``victim`` after the first token of a request. Returns the type of the error that follows."""
    engine = model.llm_engine
    engine.add_request("long", "Once upon a time", SamplingParams(max_tokens=200, ignore_eos=True))
    while not engine.step():
        pass
    os.kill(victim, signal.SIGKILL)
    try:
        while engine.has_unfinished_requests():
            engine.step()
    except Exception as error:  # which one it is, the test checks
        return type(error).__name__
    return None


if __name__ == "__main__":
    model = LLM(
        model=sys.argv[1],
        additional_config={"npugraph_ex_config": {"enable": True, "enable_static_kernel": False}},
        **json.loads(sys.argv[4]),
    )
    outputs = model.generate(json.loads(sys.argv[2]), SamplingParams(temperature=0, max_tokens=int(sys.argv[3])))
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    tasks_of_ranks = model.collective_rpc(tasks)
    workers = [psutil.Process(pid) for pid in model.collective_rpc(process_of)]
    children = psutil.Process().children(recursive=True)
    error = lose_a_worker(model, workers[-1].pid)
    _, orphans = psutil.wait_procs({*workers, *children}, timeout=60)
    print(
        json.dumps(
            {
                "tokens": tokens,
                "tasks": tasks_of_ranks,
                "error": error,
                "orphans": [orphan.name() for orphan in orphans],
            }
        )
    )
