# SPDX-License-Identifier: Apache-2.0
"""Nearly all bytes of a decode step are read by generated code and native kernels, not by calls of ATen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from processes import printed
from tiny_models import write

SMALL = {"max_model_len": 512, "max_num_seqs": 4, "gpu_memory_utilization": 0.1}
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


@pytest.mark.parametrize("family", MODELS)
def test_share_of_aten(family: str, smollm2: str, tmp_path: Path, environment: dict[str, str]) -> None:
    write(family, Path(smollm2), tmp_path, torch.bfloat16, **MODELS[family])
    script = Path(__file__).with_name("shares.py")
    (result,) = printed(script, str(tmp_path), json.dumps(SMALL), environment=environment)
    assert sum(result["aten"].values()) <= SHARE * result["weights"], result
