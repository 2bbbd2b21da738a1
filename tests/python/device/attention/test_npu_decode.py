# SPDX-License-Identifier: Apache-2.0
"""Caches of keys and values are updated in place, however a program writes them, on cpu and npu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu

import npugraph
from npugraph.demo import generate
from tests.python.backend.checks import compile_ex
from tests.python.device.npu_operators import on

PLACES = pytest.mark.parametrize("place", ["cpu", "npu"])
HEADS, LENGTH, SIZE = 2, 64, 16
CACHE_BYTES = HEADS * LENGTH * SIZE * 4


@pytest.fixture(autouse=True)
def fresh():
    npugraph.reset()
    with torch.no_grad():
        yield


def language_model(name: str) -> torch.nn.Module:
    """Returns a model of two layers with the shapes of a small Qwen3 or of SmolLM2-135M."""
    import transformers

    torch.manual_seed(0)
    common = {"vocab_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 64}
    if name == "qwen3":
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**common, **shape, head_dim=16)).eval()
    shape = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**common, **shape, tie_word_embeddings=True)).eval()


def last_graph(artifact: npugraph.Artifact) -> str:
    """Returns the graph after all graph passes."""
    return artifact.graph(artifact.stages[-3])


@pytest.mark.feature("1.13", "2.14")
@pytest.mark.parametrize("name", ["qwen3", "smollm2"])
@PLACES
def test_a_decode_step_copies_nothing(name: str, place: str) -> None:
    model = language_model(name).to(place)
    compiled = compile_ex(model)
    cache, expected = (generate.static_cache(model, LENGTH) for _ in range(2))
    token, wanted = (torch.tensor([[7]], device=place) for _ in range(2))
    for _ in range(4):
        token = generate.next_token(compiled, cache, token)
        wanted = generate.next_token(model, expected, wanted)
        assert torch.equal(token, wanted)
    for ours, eager in zip(cache.layers, expected.layers, strict=True):
        torch.testing.assert_close(ours.keys, eager.keys, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours.values, eager.values, rtol=1e-4, atol=1e-5)
    artifact = npugraph.artifacts()[-1]
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert last_graph(artifact).count("= aten.index_copy_(") == 2 * 2
    assert artifact.counters["captures"] == 1


def cache() -> torch.Tensor:
    return torch.arange(HEADS * LENGTH * SIZE, dtype=torch.float32).view(1, HEADS, LENGTH, SIZE)


def token(value: float = -1.0) -> torch.Tensor:
    return torch.full((1, HEADS, 1, SIZE), value)


def pages() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns caches of keys and values with 4 pages of 4 places each."""
    return torch.zeros(4, 4, HEADS, SIZE), torch.zeros(4, 4, HEADS, SIZE)


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(3, HEADS, SIZE), torch.full((3, HEADS, SIZE), 2.0)


def index_put(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    heads = torch.arange(HEADS, device=k.device)
    k.index_put_((torch.zeros_like(heads), heads, at.expand(HEADS)), x[0, :, 0])


def index_copy(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    k.index_copy_(2, at, x)


def assign_by_tensor(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    k[:, :, at] = x


def assign_slice(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    k[:, :, 5:6] = x


def scatter_update(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    torch_npu.scatter_update_(k, at, x, 2)


def scatter_update_of_a_copy(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    k.copy_(torch_npu.scatter_update(k, at, x, 2))


def scatter_nd_update(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> None:
    rows = k.view(HEADS * LENGTH, SIZE)
    places = torch.arange(HEADS, device=k.device)[:, None] * LENGTH + at
    torch_npu.npu_scatter_nd_update_(rows, places, x[0, :, 0])


WRITES: dict[str, Callable[..., None]] = {
    "index_put_": index_put,
    "index_copy_": index_copy,
    "assignment": assign_by_tensor,
    "slice": assign_slice,
    "scatter_update_": scatter_update,
    "scatter_update": scatter_update_of_a_copy,
    "npu_scatter_nd_update_": scatter_nd_update,
}
IN_PLACE = {"index_copy_": "aten.index_copy_(", "slice": "aten.copy_("}


def run_twice(step: Callable[..., Any], make: Callable[[], tuple[Any, ...]], place: str, **options: Any) -> Any:
    """Checks that ``step`` computes and writes what it does in eager mode, in the same memory. Returns its artifact."""
    npugraph.reset()
    compiled = compile_ex(step, **options)
    given, expected = on(place, make()), on(place, make())
    addresses = [x.data_ptr() for x in given if isinstance(x, torch.Tensor)]
    for _ in range(2):
        torch.testing.assert_close(compiled(*given), step(*expected))
    for ours, eager in zip(given, expected, strict=True):
        assert not isinstance(ours, torch.Tensor) or torch.equal(ours, eager)
    assert addresses == [x.data_ptr() for x in given if isinstance(x, torch.Tensor)]
    return npugraph.artifacts()[-1]


@pytest.mark.feature("1.13", "2.14")
@pytest.mark.parametrize("name", WRITES)
@PLACES
def test_nothing_of_the_cache_is_copied(name: str, place: str) -> None:
    """At most the bytes of the token are copied."""

    def step(k: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        WRITES[name](k, x, at)
        return (k * x).sum(-1)

    def make() -> tuple[torch.Tensor, ...]:
        return cache(), token(), torch.tensor([5])

    artifact = run_twice(step, make, place)
    assert artifact.memory["copied_bytes_per_replay"] <= HEADS * SIZE * 4
    assert IN_PLACE.get(name, "aten.index_put_(") in last_graph(artifact)
    copying = run_twice(step, make, place, options={"input_inplace_pass": False})
    assert copying.memory["copied_bytes_per_replay"] >= CACHE_BYTES


@pytest.mark.feature("2.14")
@PLACES
def test_a_slice_at_a_place_that_changes(place: str) -> None:
    def step(k: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
        k[:, :, at : at + 1] = x
        return (k * x).sum(-1)

    artifact = run_twice(step, lambda: (cache(), token(), 5), place, dynamic=True)
    assert artifact.memory["copied_bytes_per_replay"] == HEADS * SIZE * 4


@pytest.mark.feature("2.14")
@pytest.mark.parametrize("write", [torch_npu.npu_scatter_pa_kv_cache, torch_npu._npu_reshape_and_cache])
@PLACES
def test_pages_of_a_cache_are_written_without_copies(write: Any, place: str) -> None:
    def step(key: Any, value: Any, keys: Any, values: Any, slots: Any) -> torch.Tensor:
        norm = {"cache_mode": "Norm"} if write is torch_npu.npu_scatter_pa_kv_cache else {}
        write(key, value, keys, values, slots, **norm)
        return (keys + values).sum(-1)

    artifact = run_twice(step, lambda: (*tokens(), *pages(), torch.tensor([1, 5, 9])), place)
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert "aten.clone" not in last_graph(artifact)


@pytest.mark.feature("2.14")
@PLACES
def test_layers_of_one_cache(place: str) -> None:
    """Each layer writes its part of one tensor in place, and then reads all parts that are written so far."""

    def step(key: Any, value: Any, stacked: Any, slots: Any) -> list[torch.Tensor]:
        sums = []
        for layer in range(4):
            torch_npu._npu_reshape_and_cache(key + layer, value, stacked[layer, 0], stacked[layer, 1], slots)
            sums.append(stacked[: layer + 1].sum())
        return sums

    def make() -> tuple[torch.Tensor, ...]:
        return *tokens(), torch.zeros(4, 2, 4, 4, HEADS, SIZE), torch.tensor([1, 5, 9])

    artifact = run_twice(step, make, place)
    assert artifact.memory["copied_bytes_per_replay"] == 0
