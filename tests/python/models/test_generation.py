# SPDX-License-Identifier: Apache-2.0
"""A real language model generates the same tokens compiled as in eager mode, with few compiles and captures."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from npugraph.demo import generate
from npugraph.demo.smollm2 import chat_prompt
from tests.python.models import model_measurements as m

QUESTION = "Write a long story about a dragon who learns to play chess."
TOKENS = 200

# (cache, dynamic) -> the largest number of compiles. A static cache needs a graph for the prompt and one for the step.
# With a growing cache, the first step may need its own graph. With dynamic=False every length needs one, until Dynamo's
# recompile limit.
COMPILES = {
    ("static", None): 2,
    ("static", True): 2,
    ("static", False): 2,
    ("dynamic", None): 3,
    ("dynamic", True): 2,
    ("dynamic", False): torch._dynamo.config.recompile_limit,
}
# In `make test` the demo has a static cache on this model, and test_small_generation has each kind on a small one.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def prompt(smollm2_tokenizer: Any) -> torch.Tensor:
    return chat_prompt(smollm2_tokenizer, QUESTION)


@pytest.fixture(scope="module")
def eager_tokens(smollm2: Any, prompt: torch.Tensor) -> list[int]:
    return list(generate.greedy(smollm2, DynamicCache(config=smollm2.config), prompt, TOKENS))


def new_cache(kind: str, model: Any, prompt: torch.Tensor) -> Any:
    if kind == "static":
        return generate.static_cache(model, prompt.shape[1] + TOKENS)
    return DynamicCache(config=model.config)


@pytest.mark.parametrize(("kind", "dynamic"), COMPILES)
def test_greedy_tokens_equal_eager(
    kind: str, dynamic: bool | None, smollm2: Any, prompt: torch.Tensor, eager_tokens: list[int]
) -> None:
    m.reset()
    compiled = torch.compile(smollm2, backend=m.BACKEND, dynamic=dynamic)
    cache = new_cache(kind, smollm2, prompt)
    assert list(generate.greedy(compiled, cache, prompt, TOKENS)) == eager_tokens

    compiles = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert compiles <= COMPILES[kind, dynamic]
    captures = [artifact.counters["captures"] for artifact in m.artifacts()]
    assert sum(captures) <= (compiles if kind == "static" else TOKENS)
    if kind == "static":  # a second conversation compiles nothing new
        cache.reset()
        few = 8
        assert list(generate.greedy(compiled, cache, prompt, few)) == eager_tokens[:few]
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiles
        assert [artifact.counters["captures"] for artifact in m.artifacts()] == captures


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_generate_of_transformers(
    cache: str, smollm2: Any, prompt: torch.Tensor, eager_tokens: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    m.reset()
    few = 8
    monkeypatch.setattr(smollm2, "forward", torch.compile(smollm2.forward, backend=m.BACKEND))
    assert m.generated(smollm2, prompt, cache, few) == eager_tokens[:few]
