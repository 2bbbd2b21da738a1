# SPDX-License-Identifier: Apache-2.0
"""Random numbers of graphs of GE: those of eager mode, in its order, from its generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.python.ge.converted import random_tensor as t
from torchair import CompilerConfig, get_npu_backend

functional = torch.nn.functional

DRAWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "StatelessRandomUniformV2": lambda x: torch.rand(3, 5) + 1,
    "StatelessRandomUniformV2 of a tensor": lambda x: torch.rand_like(x) + 1,
    "StatelessRandomUniformV2 of bounds": lambda x: torch.empty_like(x).uniform_(1, 3) * 1.5,
    "StatelessRandomNormalV2": lambda x: torch.randn(33) * 2,
    "StatelessRandomNormalV2 of a tensor": lambda x: torch.randn_like(x.contiguous()) * 2,
    "StatelessRandomUniformIntV2": lambda x: torch.randint(2, 50, (7,)) + 1,
    "StatelessRandomUniformIntV2 of a tensor": lambda x: torch.randint_like(x, 9) * 2,
    "StatelessRandperm": lambda x: torch.randperm(9) + 1,
    "StatelessBernoulli": lambda x: torch.empty_like(x).bernoulli_(0.1) * 3,
    "StatelessBernoulli of a tensor": lambda x: torch.bernoulli(x.sigmoid()) * 3,
    "StatelessBernoulli of two tensors": lambda x: torch.empty(x.shape).bernoulli_(x.sigmoid().contiguous()) * 3,
    "MultinomialWithReplacement": lambda x: torch.multinomial(x.softmax(-1), 5, replacement=True) + 1,
    "MultinomialWithReplacement of few": lambda x: torch.multinomial(x.softmax(-1), 2) + 1,
    "StatelessDropOutGenMask": lambda x: functional.dropout(x, 0.3) * 2,
}


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """In a graph of GE, and nothing beside it."""
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    return torch.compile(function, backend=get_npu_backend(compiler_config=config), fullgraph=True, **options)


def check_draws(function: Callable[..., Any], fast: Callable[..., Any], x: torch.Tensor) -> None:
    """Equal numbers in equal places, and the generator afterwards in the same state, twice."""
    for seed in (3, 4):
        results = []
        for run in (function, fast):
            torch.manual_seed(seed)
            torch.rand(5)
            results.append((pytree.tree_leaves(run(x)), torch.get_rng_state()))
        (want, state), (got, our_state) = results
        assert torch.equal(state, our_state)
        for ours, theirs in zip(got, want, strict=True):
            assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


@torch.no_grad()
@pytest.mark.feature("6.38")
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_those_of_eager(name: str, dynamic: bool, is_turned: bool, models: list[Any]) -> None:
    function = DRAWS[name]
    x = t(6, 4).t() if is_turned else t(4, 6)
    check_draws(function, compiled(function, dynamic=dynamic), x)
    (model,) = models
    assert name.split()[0] in {op.type for op in model.op}


@torch.no_grad()
@pytest.mark.feature("6.38")
def test_draws_keep_the_order_of_the_program() -> None:
    """Also where a later one is ready first."""

    def function(x: torch.Tensor) -> Any:
        late = functional.dropout((x * 2 + 1).abs(), 0.5)
        return late * 2, torch.rand_like(x) + 1, functional.dropout(x, 0.1) + torch.randn(6)

    check_draws(function, compiled(function), t(4, 6))


@pytest.mark.feature("6.38")
def test_a_step_of_training_drops_what_eager_drops() -> None:
    """Its backward half takes the mask of its forward half."""
    weight = t(6, 6).requires_grad_()

    def function(x: torch.Tensor) -> torch.Tensor:
        functional.dropout(functional.dropout(x, 0.4) @ weight, 0.2).sum().backward()
        gradient, weight.grad = weight.grad, None
        return gradient

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.dropout(functional.dropout(x, 0.4) @ weight, 0.2).sum()

    fast = compiled(loss)

    def fast_function(x: torch.Tensor) -> torch.Tensor:
        fast(x, weight).backward()
        gradient, weight.grad = weight.grad, None
        return gradient

    for seed in (3, 4):
        torch.manual_seed(seed)
        want = function(t(4, 6))
        torch.manual_seed(seed)
        torch.testing.assert_close(fast_function(t(4, 6)), want)


@torch.no_grad()
def test_draws_of_a_generator_of_their_own_run_eagerly() -> None:
    generator = torch.Generator()

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + torch.rand(4, 6, generator=generator)

    torch._dynamo.reset()
    fast = torch.compile(function, backend=get_npu_backend())
    generator.manual_seed(1)
    want = function(t(4, 6))
    generator.manual_seed(1)
    assert torch.equal(fast(t(4, 6)), want)
