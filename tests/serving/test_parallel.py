# SPDX-License-Identifier: Apache-2.0
"""vLLM with several ranks on one host: the tokens are those of transformers, and captured Programs communicate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import random_models
from conftest import ROOT
from processes import printed, run_command
from test_document import complete, served

SMALL = {"max_model_len": 256, "max_num_seqs": 4, "gpu_memory_utilization": 0.08}


class Model:
    """A random model of a family, and what transformers generates with it."""

    def __init__(self, folder: Path, tokenizer_of: str, family: str) -> None:
        random_models.write(folder, tokenizer_of, family)
        self.folder = str(folder)
        self.expected = random_models.generated_by_transformers(folder)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory, smollm2: str) -> Model:
    return Model(tmp_path_factory.mktemp("qwen3"), smollm2, "qwen3")


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory, smollm2: str) -> Model:
    return Model(tmp_path_factory.mktemp("qwen3-moe"), smollm2, "qwen3-moe")


def run(model: Model, environment: dict[str, str], arguments: dict[str, Any]) -> dict[str, Any]:
    script = Path(__file__).with_name("ranks.py")
    prompts, settings = json.dumps(list(model.expected)), json.dumps(SMALL | arguments)
    (result,) = printed(script, model.folder, prompts, random_models.NEW_TOKENS, settings, environment=environment)
    return result


@pytest.mark.parametrize("of", ["dense", "experts"])
def test_tensor_parallel(of: str, request: pytest.FixtureRequest, environment: dict[str, str]) -> None:
    model = request.getfixturevalue(of)
    result = run(model, environment, {"tensor_parallel_size": 2})
    assert result["tokens"] == list(model.expected.values())
    assert len(result["tasks"]) == 2
    for tasks in result["tasks"]:
        sums = [name for kind, name in tasks if kind == "collective" and name != "npugraph.wait"]
        assert sums == ["npugraph.all_reduce"] * 5  # of the embedding, and of attention and mlp in each layer
        assert not [name for _, name in tasks if "reduce" in name and name.startswith("vllm")]
    assert result["error"] == "EngineDeadError"
    assert result["orphans"] == []


def test_expert_parallel(experts: Model, environment: dict[str, str]) -> None:
    result = run(experts, environment, {"tensor_parallel_size": 2, "enable_expert_parallel": True})
    assert result["tokens"] == list(experts.expected.values())
    assert result["error"] == "EngineDeadError"
    assert result["orphans"] == []


def test_pipeline_parallel(dense: Model, environment: dict[str, str]) -> None:
    result = run(dense, environment, {"pipeline_parallel_size": 2})
    assert result["tokens"] == list(dense.expected.values())
    assert all(result["tasks"])
    assert result["error"] == "EngineDeadError"
    assert result["orphans"] == []


def test_data_parallel(dense: Model, environment: dict[str, str]) -> None:
    def tokens(prompt: str) -> list[int]:
        request = {"prompt": prompt, "max_tokens": random_models.NEW_TOKENS, "temperature": 0, "return_token_ids": True}
        return complete(server, request | {"model": dense.folder})["choices"][0]["token_ids"]

    with served(dense.folder, environment, "--data-parallel-size=2") as server, ThreadPoolExecutor() as users:
        prompts = list(dense.expected) * 2
        assert list(users.map(tokens, prompts)) == [dense.expected[prompt] for prompt in prompts]


def test_two_hosts(dense: Model, environment: dict[str, str]) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and the program ip of iproute2, to join two network namespaces")
    if subprocess.run(["ip", "netns", "add", "npugraph-probe"], capture_output=True).returncode != 0:
        pytest.skip("this system lets nobody make network namespaces")
    subprocess.run(["ip", "netns", "delete", "npugraph-probe"], check=True)
    script = ROOT / "examples" / "serving" / "two_hosts.sh"
    small = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    prompt, tokens = next(iter(dense.expected.items()))
    command = [script, sys.prefix, dense.folder, prompt, "--tensor-parallel-size=2", *small]
    done = run_command(*command, environment=environment)
    *hosts, answer = done.stdout.splitlines()
    assert hosts == ["host 10.77.0.1: 1 NPU in use", "host 10.77.0.2: 1 NPU in use"]
    assert json.loads(answer)["choices"][0]["token_ids"] == tokens
