# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs of a language model that later processes use: prompt and steps, with both kinds of caches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex

CONFIG = transformers.LlamaConfig(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    vocab_size=64,
    max_position_embeddings=32,
)


def static_cache() -> Any:
    return transformers.StaticCache(config=CONFIG, max_cache_len=16)


def growing_cache() -> Any:
    return transformers.DynamicCache(config=CONFIG)


@pytest.mark.feature("5.01", "12e.9")
@pytest.mark.filterwarnings("ignore:.*compiled again:UserWarning")
@pytest.mark.parametrize("make_cache", [static_cache, growing_cache])
@torch.no_grad()
def test_prompt_and_steps(tmp_path, make_cache) -> None:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(CONFIG).eval()
    for _ in range(2):
        npugraph.reset()
        forward = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path)
        ours, eagers = make_cache(), make_cache()
        for tokens in (5, 1, 1, 1):
            ids = torch.randint(0, 64, (1, tokens))
            got = forward(input_ids=ids, past_key_values=ours, use_cache=True)
            want = model(input_ids=ids, past_key_values=eagers, use_cache=True)
            assert type(got) is type(want)
            assert list(got) == list(want)
            assert got.past_key_values is ours
            torch.testing.assert_close(got.logits, want.logits)
        torch.testing.assert_close(ours.layers[0].keys, eagers.layers[0].keys)
        assert ours.get_seq_length() == eagers.get_seq_length()
    assert counters["npugraph_ex"]["compiles"] == 0
    assert counters["npugraph_ex"]["inference_cache_hits"] == 1
