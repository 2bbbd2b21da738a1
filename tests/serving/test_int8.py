# SPDX-License-Identifier: Apache-2.0
"""A model with weights of int8 (W8A8): its tokens are those of the definition, and its products are generated code."""

from __future__ import annotations

import json
from pathlib import Path

import int8
import pytest
import random_models
import torch
from processes import printed
from safetensors.torch import load_file

# A value between two steps of int8 may be rounded to either, which moves logits by more than other rounding does. From
# bf16 to fp32, the gap between the two greatest logits changes by up to 0.15 standard deviations.
LEAST, GAP = 4, 0.2
SMALL = {"max_model_len": 128, "max_num_seqs": 4, "gpu_memory_utilization": 0.1}


@pytest.fixture(scope="module")
def folders(smollm2: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model in bf16, and the same in int8."""
    folder = tmp_path_factory.mktemp("models")
    random_models.write(folder / "bf16", smollm2, "qwen3")
    int8.write(folder / "bf16", folder / "int8")
    return folder / "bf16", folder / "int8"


def test_tokens_and_products(folders: tuple[Path, Path], environment: dict[str, str]) -> None:
    bf16, quantised = folders
    stored = load_file(quantised / int8.WEIGHTS)

    def change(model: torch.nn.Module) -> None:
        for name, layer in model.named_modules():
            if name.endswith("_proj"):
                exact = stored[f"{name}.weight"].float() * stored[f"{name}.weight_scale"].float()
                layer.weight.data = exact.to(layer.weight.dtype)
                layer.register_forward_pre_hook(lambda _, args: rounded(*args))

    expected = random_models.generated_by_transformers(bf16, change, LEAST, GAP)
    arguments = [list(expected), random_models.NEW_TOKENS, {"model": str(quantised), **SMALL}]
    script = Path(__file__).with_name("batch.py")
    (result,) = printed(script, *map(json.dumps, arguments), environment=environment)
    sure = [tokens[: len(known)] for tokens, known in zip(result["tokens"], expected.values(), strict=True)]
    assert sure == list(expected.values())
    names = [name for _, name in result["tasks"]]
    assert "matmul._int_mm" in names
    assert "aten._int_mm" not in names


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Each row in 255 steps, of which its largest magnitude is 127."""
    scale = x.float().abs().amax(-1, keepdim=True) / 127
    return ((x.float() / scale).round() * scale).to(x.dtype)
