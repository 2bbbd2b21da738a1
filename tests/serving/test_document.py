# SPDX-License-Identifier: Apache-2.0
"""The lines of vllm-ascend's document of npugraph_ex, offline and online, do what the document says."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from greedy import Reference
from offline import LENGTH, PROMPTS
from processes import DIED, VLLM, Server, objects, ready, run_command

# The model ends the sampled prompt at once with a probability of 12 %; it does not with the numbers of this seed.
SMALL = {"max_model_len": 256, "max_num_seqs": 4, "gpu_memory_utilization": 0.2, "seed": 1}
CONFIG = '{"npugraph_ex_config":{"enable":true, "enable_static_kernel":false}}'


class Offline(NamedTuple):
    log: str
    result: dict[str, Any]


@pytest.fixture(scope="module")
def reference(smollm2: str) -> Reference:
    return Reference(smollm2)


@pytest.fixture(scope="module")
def first_start(smollm2: str, environment: dict[str, str]) -> Offline:
    return offline(smollm2, environment)


def test_offline(first_start: Offline, reference: Reference) -> None:
    log, result = first_start
    assert not DIED.search(log)
    assert log.count("captures whole decode steps") == 1
    assert not result["in_advance"]  # the device would only delay the tokens of a step that is over
    assert not result["receives"]  # a thread that frees tensors while Python exits would end the process
    assert result["sampled"]
    for prompt, text in zip(PROMPTS, result["greedy"], strict=True):
        reference.check(prompt, text, LENGTH)
    assert result["programs"]
    assert all(opaque_products == 0 for _, opaque_products in result["programs"])


def test_second_start_compiles_nothing(first_start: Offline, smollm2: str, environment: dict[str, str]) -> None:
    assert first_start.result["compiles"] > 0
    second = offline(smollm2, environment).result
    assert second["compiles"] == 0
    assert second["programs"]
    assert second["greedy"] == first_start.result["greedy"]


def test_online(smollm2: str, environment: dict[str, str], reference: Reference) -> None:
    with served(smollm2, environment) as server:
        for prompt in PROMPTS:
            answer = complete(server, {"model": smollm2, "prompt": prompt, "max_tokens": LENGTH, "temperature": 0})
            reference.check(prompt, answer["choices"][0]["text"], LENGTH)


def offline(model: str, environment: dict[str, str]) -> Offline:
    """Runs ``offline.py`` in a process of its own."""
    script = Path(__file__).with_name("offline.py")
    done = run_command(sys.executable, script, model, json.dumps(SMALL), environment=environment)
    (result,) = objects(done.stdout)
    return Offline(done.stdout + done.stderr, result)


def served(model: str, environment: dict[str, str], *options: str) -> AbstractContextManager[Server]:
    """A server as the document starts it."""
    small = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    return ready(Server(model, "--additional-config", CONFIG, *small, *options, environment=environment, program=VLLM))


def complete(server: Server, body: dict[str, Any]) -> Any:
    return httpx.post(f"{server.root}/v1/completions", json=body, timeout=60).raise_for_status().json()
