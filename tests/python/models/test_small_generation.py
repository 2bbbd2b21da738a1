# SPDX-License-Identifier: Apache-2.0
"""Small language models with grouped heads generate the same tokens compiled as in eager mode, by any kind of mask."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import DynamicCache, MistralConfig, MistralForCausalLM
from transformers.generation import RepetitionPenaltyLogitsProcessor

from npugraph.demo import generate
from tests.python.backend.checks import compiled_artifacts
from tests.python.models import model_measurements as m

TOKENS = 3


def mistral(attention: str, window: int | None) -> MistralForCausalLM:
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = MistralConfig(
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        vocab_size=97,
        sliding_window=window,
        attn_implementation=attention,
    )
    return MistralForCausalLM(config).eval().requires_grad_(False)


@pytest.mark.feature("12e.1")
@pytest.mark.parametrize(("attention", "window"), [("sdpa", 8), ("eager", None)])
def test_greedy_tokens_with_a_cache_of_fixed_size(attention: str, window: int | None) -> None:
    model = mistral(attention, window)
    prompt = torch.randint(0, 97, (1, 11))
    wanted = list(generate.greedy(model, generate.static_cache(model, 32), prompt, TOKENS))
    compiled = torch.compile(model, backend="npugraph_ex")
    assert list(generate.greedy(compiled, generate.static_cache(model, 32), prompt, TOKENS)) == wanted
    for artifact in compiled_artifacts():
        assert [task.kind for task in artifact.tasks].count("attention") == 2


@pytest.mark.parametrize(("dynamic", "tokens", "compiles"), [(True, 12, 2), (None, 12, 3), (False, 4, 4)])
def test_greedy_tokens_with_a_growing_cache(dynamic: bool | None, tokens: int, compiles: int) -> None:
    model = mistral("sdpa", None)
    prompt = torch.randint(0, 97, (1, 11))
    wanted = list(generate.greedy(model, DynamicCache(config=model.config), prompt, tokens))
    counters.clear()
    compiled = torch.compile(model, backend="npugraph_ex", dynamic=dynamic)
    assert list(generate.greedy(compiled, DynamicCache(config=model.config), prompt, tokens)) == wanted
    assert counters["stats"]["unique_graphs"] == compiles


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_generate_of_transformers(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mistral("sdpa", None)
    prompt = torch.randint(0, 97, (1, 11))
    wanted = m.generated(model, prompt, cache, 8)
    monkeypatch.setattr(model, "forward", torch.compile(model.forward, backend="npugraph_ex"))
    assert m.generated(model, prompt, cache, 8) == wanted
    compiled_artifacts()


def test_said_tokens_are_as_unlikely_as_transformers_makes_them() -> None:
    logits, said = torch.randn(1, 97), [3, 50, 3, 96]
    own = generate.less_likely(said, 1.7)(logits)
    assert torch.equal(own, RepetitionPenaltyLogitsProcessor(1.7)(torch.tensor([said]), logits.clone()))
    assert (own != logits).sum() == 3


def test_an_answer_ends_before_a_token_that_stops_it() -> None:
    model = mistral("sdpa", None)
    prompt = torch.randint(0, 97, (1, 5))
    tokens = list(generate.greedy(model, generate.static_cache(model, 32), prompt, 8, penalty=1.7))
    stopped = list(generate.greedy(model, generate.static_cache(model, 32), prompt, 8, stop={tokens[4]}, penalty=1.7))
    assert stopped == tokens[: tokens.index(tokens[4])]
