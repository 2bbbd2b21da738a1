# SPDX-License-Identifier: Apache-2.0
"""The Python lines of vllm-ascend's document of npugraph_ex, and what they led to in the worker, as JSON on the last
line. usage: offline.py MODEL [ARGUMENTS of LLM as JSON]"""

import json
import sys

from vllm import LLM, SamplingParams

PROMPTS = ["The capital of France is", "Hello, how are you?"]
LENGTH = 20  # tokens that are generated greedily for each


def programs(worker):
    import npugraph

    return [(str(artifact), artifact.program().count("vllm.unquantized_gemm")) for artifact in npugraph.artifacts()]


def compiles(worker):
    from npugraph import _C

    return _C.process_counters().get("compiles", 0)


if __name__ == "__main__":
    model = LLM(
        model=sys.argv[1],
        additional_config={
            "npugraph_ex_config": {
                "enable": True,
                "enable_static_kernel": False,
            }
        },
        **json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}"),
    )
    outputs = model.generate("Hello, how are you?")
    greedy = model.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=LENGTH))
    result = {
        "sampled": outputs[0].outputs[0].text,
        "greedy": [output.outputs[0].text for output in greedy],
        "programs": model.collective_rpc(programs)[0],
        "compiles": model.collective_rpc(compiles)[0],
        "in_advance": model.llm_engine.vllm_config.scheduler_config.async_scheduling,
    }
    client = model.llm_engine.engine_core
    client.shutdown()
    print(json.dumps(result | {"receives": client.output_queue_thread.is_alive()}))
