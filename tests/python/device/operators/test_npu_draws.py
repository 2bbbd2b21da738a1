# SPDX-License-Identifier: Apache-2.0
"""Ascend's operators that draw random numbers use the generator of the device that their tensors are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from torch.utils._pytree import tree_leaves

from tests.python.device.captures import captured

ops = torch.ops.npu


def attention(op: Callable[..., Any]) -> Callable[[str], Any]:
    def call(device: str) -> Any:
        query, key, value = (torch.ones(1, 2, 16, 8, device=device) for _ in range(3))
        return op(query, key, value, 2, "BNSD", keep_prob=0.5)[0]

    return call


def fused_score(device: str) -> Any:
    query, key, value = (torch.ones(1, 2, 16, 16, device=device) for _ in range(3))
    mask = torch.zeros(1, 1, 16, 16, device=device)
    return torch_npu.npu_fused_attention_score(query, key, value, mask, 1.0, 0.5)


DRAWS: dict[str, Callable[[str], Any]] = {
    "fusion_attention": attention(torch_npu.npu_fusion_attention),
    "fusion_attention_v2": attention(torch_npu.npu_fusion_attention_v2),
    "fusion_attention_v3": attention(torch_npu.npu_fusion_attention_v3),
    "fused_attention_score": fused_score,
    "dropout": lambda device: ops._npu_dropout(torch.ones(64, device=device), 0.5),
    "dropout_with_byte_mask": lambda device: ops.dropout_with_byte_mask(torch.ones(64, device=device), 0.5, True),
    "dropout_with_add_softmax": lambda device: torch_npu.npu_dropout_with_add_softmax(
        torch.ones(4, 16, device=device), torch.ones(4, 16, device=device), 1.0, 0.5, -1
    ),
    "random_choice_with_mask": lambda device: torch_npu.npu_random_choice_with_mask(
        torch.ones(64, dtype=torch.bool, device=device), 8
    ),
    "sub_sample": lambda device: torch_npu.npu_sub_sample(torch.ones(64, dtype=torch.int32, device=device), 16, 0.5),
    "sim_exponential_": lambda device: torch_npu.npu_sim_exponential_(torch.empty(64, device=device)),
}


def equal(one: Any, other: Any) -> bool:
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
    return all(torch.equal(a.cpu(), b.cpu()) for a, b in pairs)


@pytest.mark.parametrize("name", DRAWS)
def test_operators_draw_from_the_generator_of_npu(name: str) -> None:
    """A call on npu draws what cpu draws under the same seed, and leaves the generator of cpu as it is."""
    run = DRAWS[name]
    torch.manual_seed(3)
    of_cpu, cpu_state, npu_state = run("cpu"), torch.get_rng_state(), torch.npu.get_rng_state()
    first = run("npu")
    assert torch.equal(torch.get_rng_state(), cpu_state)
    assert torch.equal(torch.npu.get_rng_state(), cpu_state) and not torch.equal(npu_state, cpu_state)
    assert equal(first, of_cpu) and not equal(first, run("npu"))


@pytest.mark.parametrize("name", DRAWS)
def test_captured_operators_draw_anew_at_every_replay(name: str) -> None:
    run = DRAWS[name]
    torch.npu.manual_seed(3)
    before = torch.npu.get_rng_state()
    with torch.no_grad():
        graph, made = captured(lambda: run("npu"))
        assert torch.equal(torch.npu.get_rng_state(), before)
        replayed = []
        for _ in range(2):
            graph.replay()
            replayed.append([one.clone() for one in tree_leaves(made)])
        torch.npu.manual_seed(3)
        for results in replayed:
            assert equal(results, run("npu"))
    assert not equal(*replayed)


@pytest.mark.parametrize("name", ["fusion_attention", "fusion_attention_v2"])
def test_training_draws_from_the_generator_of_npu(name: str) -> None:
    op = getattr(torch_npu, f"npu_{name}")
    query, key, value = (torch.randn(1, 2, 16, 8, device="npu", requires_grad=True) for _ in range(3))

    def step() -> list[torch.Tensor]:
        out = op(query, key, value, 2, "BNSD", keep_prob=0.5)[0]
        return [out.detach(), *torch.autograd.grad(out.square().sum(), (query, key, value))]

    results, states = [], []
    cpu_state = torch.get_rng_state()
    for run in (step, step):
        torch.npu.manual_seed(3)
        results.append(run())
        states.append(torch.npu.get_rng_state())
    assert equal(*results) and torch.equal(*states) and torch.equal(torch.get_rng_state(), cpu_state)
    assert not equal(results[0], step())


@pytest.mark.parametrize("name", ["fusion_attention", "fusion_attention_v2", "fusion_attention_v3"])
def test_compiled_attention_draws_as_eager(name: str) -> None:
    run = DRAWS[name]
    compiled = torch.compile(lambda: run("npu"), backend="npugraph_ex", fullgraph=True)
    results, states = [], []
    with torch.no_grad():
        for call in (lambda: run("npu"), compiled):
            torch.npu.manual_seed(3)
            results.append([call(), call()])
            states.append(torch.npu.get_rng_state())
    assert equal(*results) and torch.equal(*states)


def test_a_gradient_of_dropout_without_its_seed_is_refused() -> None:
    query, key, value, dy = (torch.ones(1, 2, 16, 8, device="npu") for _ in range(4))
    with pytest.raises(RuntimeError, match=r"attention_grad: keep_prob is 0\.5 and there is no seed, of which"):
        torch_npu.npu_fusion_attention_grad(query, key, value, dy, 2, "BNSD", keep_prob=0.5)
