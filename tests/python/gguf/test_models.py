# SPDX-License-Identifier: Apache-2.0
"""A real model from its GGUF file answers as the dequantised model does."""

from __future__ import annotations

import threading

import gguf
import numpy as np
import pytest
import torch
from torch import nn

from npugraph.demo import generate, smollm2
from npugraph.gguf import QuantisedEmbedding, QuantisedLinear, load
from npugraph.gguf.reading import read_once
from tests.python.first_layers import first_layers

MARGIN = 1e-3  # if the two largest logits differ by more, tokens must be equal
TOKENS = 24


@pytest.fixture(scope="module")
def quantised() -> nn.Module:
    return load(smollm2.weights_file())


@pytest.fixture(scope="module")
def dequantised() -> nn.Module:
    return smollm2.load_model()


def test_a_file_is_parsed_once() -> None:
    reader, path = gguf.GGUFReader, str(smollm2.weights_file())
    with read_once():
        parsed = gguf.GGUFReader(path)
        with read_once():
            assert gguf.GGUFReader(path) is parsed
    assert gguf.GGUFReader is reader
    plain = reader(path)
    assert parsed.fields.keys() == plain.fields.keys()
    for got, want in zip(parsed.tensors[::40], plain.tensors[::40], strict=True):
        assert (got.name, got.tensor_type) == (want.name, want.tensor_type)
        np.testing.assert_array_equal(got.data, want.data)


def test_threads_that_read_at_once_leave_the_package_as_it_is() -> None:
    reader, left = gguf.GGUFReader, threading.Event()

    def other() -> None:
        with read_once():
            left.wait(60)

    thread = threading.Thread(target=other)
    with read_once():
        thread.start()
    left.set()
    thread.join()
    assert gguf.GGUFReader is reader


def test_weights_keep_their_blocks(quantised: nn.Module) -> None:
    kinds = [module.kind for module in quantised.modules() if isinstance(module, QuantisedLinear)]
    assert sorted(kinds) == ["q4_1"] * 210 + ["q8_0"]
    embedding = quantised.get_input_embeddings()
    assert isinstance(embedding, QuantisedEmbedding)
    assert quantised.get_output_embeddings().blocks is embedding.blocks
    assert not any(isinstance(module, nn.Linear) for module in quantised.modules())
    stored = sum(p.numel() * p.element_size() for p in quantised.parameters())
    assert stored < 1.02 * smollm2.weights_file().stat().st_size
    down = quantised.model.layers[3].mlp.down_proj
    (tensor,) = (t for t in gguf.GGUFReader(smollm2.weights_file()).tensors if t.name == "blk.3.ffn_down.weight")
    np.testing.assert_array_equal(down.blocks.numpy(), tensor.data)


def test_eager_logits_are_those_of_the_dequantised_model(quantised: nn.Module, dequantised: nn.Module) -> None:
    prompt = torch.arange(100, 120)[None]
    assert torch.equal(quantised(prompt).logits, dequantised(prompt).logits)


def logits_of(model: nn.Module, forward: generate.Forward, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the logits of the prompt's last position and of each of ``tokens``, which are fed one by one."""
    cache = generate.static_cache(model, prompt.shape[1] + TOKENS)
    steps = [prompt, *tokens.split(1, dim=1)]
    rows = [forward(input_ids=s, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1] for s in steps]
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("prompt_length", "layers"),
    [(40, 6), pytest.param(5, 30, marks=pytest.mark.long), pytest.param(40, 30, marks=pytest.mark.long)],
)
def test_compiled_tokens_are_those_of_the_dequantised_model(
    quantised: nn.Module, dequantised: nn.Module, prompt_length: int, layers: int
) -> None:
    with first_layers(quantised, layers), first_layers(dequantised, layers):
        check_compiled_tokens(quantised, dequantised, prompt_length)


def check_compiled_tokens(quantised: nn.Module, dequantised: nn.Module, prompt_length: int) -> None:
    prompt = torch.arange(300, 300 + prompt_length)[None]
    cache = generate.static_cache(dequantised, prompt_length + TOKENS)
    tokens = torch.tensor([list(generate.greedy(dequantised, cache, prompt, TOKENS - 1))])
    compiled = torch.compile(quantised, backend="npugraph_ex")
    want = logits_of(dequantised, dequantised, prompt, tokens)
    got = logits_of(quantised, compiled, prompt, tokens)
    assert (got - want).abs().max() <= 1e-4 * want.abs().max()
    best = want.topk(2).values
    clear = best[:, 0] - best[:, 1] > MARGIN
    assert torch.equal(got.argmax(-1)[clear], want.argmax(-1)[clear])
    assert clear.sum() > TOKENS // 2


@pytest.mark.long
def test_rounded_activations_stay_close(quantised: nn.Module) -> None:
    prompt = torch.arange(300, 320)[None]
    rounding = load(smollm2.weights_file(), int8=True)
    compiled = torch.compile(rounding, backend="npugraph_ex")
    want, got = quantised(prompt).logits, compiled(prompt).logits
    assert (got - want).norm() <= 0.05 * want.norm()
    assert (got - rounding(prompt).logits).norm() <= 0.03 * want.norm()
