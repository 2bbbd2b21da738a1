# SPDX-License-Identifier: Apache-2.0
"""Nearly all bytes of a decode step are read by generated code and native kernels, not by calls of ATen, and a step
copies nothing of the KV cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import printed
from shares import CONTEXTS, REQUESTS
from tiny_models import write

# No tensor but a cache has a number of elements with this prime factor.
BLOCKS = 97
SMALL = {
    "max_model_len": 2048,
    "max_num_seqs": REQUESTS,
    "gpu_memory_utilization": 0.1,
    "num_gpu_blocks_override": BLOCKS,
}
SHARE = 0.05
# As in models that people use, weights are much larger than what a token is between two layers.
EXPERTS = {"hidden_size": 1024, "num_attention_heads": 16, "moe_intermediate_size": 512, "num_experts_per_tok": 6}
MODELS = {
    "qwen3": {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 3072},
    "qwen3-moe": EXPERTS | {"num_key_value_heads": 4, "num_experts": 32},
    "deepseek-v3": EXPERTS
    | {"num_key_value_heads": 16, "q_lora_rank": 512, "kv_lora_rank": 512, "intermediate_size": 3072}
    | {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    | {"n_routed_experts": 32, "n_group": 4, "topk_group": 2},
}


@pytest.fixture(scope="module", params=MODELS)
def moved(
    request: pytest.FixtureRequest, smollm2: str, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> dict[str, Any]:
    """What ``shares.py`` prints for a model."""
    folder = tmp_path_factory.mktemp("model")
    sizes = MODELS[request.param] | {"max_position_embeddings": SMALL["max_model_len"]}
    write(request.param, Path(smollm2), folder, torch.bfloat16, **sizes)
    script = Path(__file__).with_name("shares.py")
    (result,) = printed(script, str(folder), json.dumps(SMALL), environment=environment)
    return result


def test_share_of_aten(moved: dict[str, Any]) -> None:
    for step in moved["steps"]:
        assert sum(step["aten"].values()) <= SHARE * moved["weights"], moved


def test_no_copy_of_caches(moved: dict[str, Any]) -> None:
    """Compiled code has no cache among its buffers, and the arena of a captured step has no room for a copy. A copy of
    a whole cache by ATen, or to memory that a step allocates, would have its size. A copy of what the requests have in
    it would grow with their lengths."""
    short, long = moved["steps"]
    growth = moved["cached"] * REQUESTS * (CONTEXTS[1] - CONTEXTS[0])
    assert moved["programs"], moved
    assert not any(moved["programs"]), moved
    assert moved["graphs"], moved
    for graph in moved["graphs"]:
        assert graph["arena_bytes"] + graph["copied_bytes_per_replay"] < growth, moved
    assert sum(long["aten"].values()) - sum(short["aten"].values()) < growth, moved
    assert long["allocated"] - short["allocated"] < growth, moved
    for step in moved["steps"]:
        assert step["of_caches"] < growth, moved
        assert step["allocated"] < moved["cache"], moved
        assert not step["moved"], moved
        assert 0 < step["rewritten"] <= REQUESTS, moved  # the cache is written in place, where the new tokens belong
