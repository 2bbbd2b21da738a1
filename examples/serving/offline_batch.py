# SPDX-License-Identifier: Apache-2.0
"""Continues a file of prompts, one a line, in batches that vLLM makes, and prints a line of JSON for each.

python examples/serving/offline_batch.py MODEL PROMPTS [--length 32]
"""

import argparse
import json
from pathlib import Path

from vllm import LLM, SamplingParams

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--length", type=int, default=32, help="tokens for each prompt, at most")
    arguments = parser.parse_args()

    model = LLM(
        model=arguments.model,
        max_model_len=512,
        max_num_seqs=8,
        gpu_memory_utilization=0.2,
        additional_config={"npugraph_ex_config": {"enable": True, "enable_static_kernel": False}},
    )
    prompts = arguments.prompts.read_text().splitlines()
    outputs = model.generate(prompts, SamplingParams(temperature=0, max_tokens=arguments.length))
    for prompt, output in zip(prompts, outputs, strict=True):
        print(json.dumps({"prompt": prompt, "text": output.outputs[0].text}))
