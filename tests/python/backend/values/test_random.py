# SPDX-License-Identifier: Apache-2.0
"""Random operators give the same numbers as eager under the same seed, and leave the generator in the same state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from npugraph import artifacts
from tests.python import layouts
from tests.python.backend.checks import check, check_captured, compile_ex

OPERATORS = {
    "rand": lambda x: torch.rand(3) + x,
    "randn": lambda x: torch.randn_like(x) + x,
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(3),
    "alpha dropout": lambda x: torch.nn.functional.alpha_dropout(x, 0.5, True),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) + torch.bernoulli(x, 0.3),
    "normal": lambda x: torch.normal(x, 1.0) + x.clone().normal_(),
    "multinomial": lambda x: torch.multinomial(x.abs(), 2),
    "permutation": lambda x: torch.randperm(5) + torch.randint(0, 9, (5,)),
    "fills": lambda x: x.clone().exponential_() + x.clone().uniform_() + x.clone().geometric_(0.3),
    "fill of an input": lambda x: x.uniform_() * 2,
    "poisson": lambda x: torch.poisson(x.abs()),
    "rrelu": lambda x: torch.nn.functional.rrelu(x, training=True),
}


@pytest.mark.feature("1.25")
@pytest.mark.parametrize("fn", OPERATORS.values(), ids=OPERATORS.keys())
def test_same_numbers_as_eager(fn) -> None:
    with torch.no_grad():
        check_captured(fn, lambda: (torch.randn(3),))


IN_ALL_LAYOUTS = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout in place": lambda x: F.dropout(x.clone(), 0.5, inplace=True),
    "dropout of rows": lambda x: F.dropout2d(x, 0.5),
    "dropout of nothing": lambda x: (F.dropout(x, 0.0), F.dropout(x * 2, 0.5, False)),
    "dropout for evaluation": lambda x: (lambda hidden: (hidden, F.dropout(hidden, 0.5, False)))(x * 2),
    "native dropout": lambda x: torch.native_dropout(x, 0.5, True),
    "native dropout of nothing": lambda x: torch.native_dropout(x, 0.0, True),
    "native dropout for evaluation": lambda x: torch.native_dropout(x, 0.5, False),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "bernoulli": lambda x: torch.bernoulli(x.detach().sigmoid()),
    "bernoulli in place": lambda x: x.clone().bernoulli_(0.3),
    "likes": lambda x: (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 5)),
    "normal": lambda x: (torch.normal(x, 1.0), torch.normal(1.0, x.abs()), torch.normal(x, x.abs())),
    "poisson": lambda x: torch.poisson(x.abs()),
    "gamma": lambda x: torch._standard_gamma(x.detach().abs() + 1),
    "gumbel softmax": lambda x: F.gumbel_softmax(x, dim=-1),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "rrelu in place": lambda x: F.rrelu(x.clone(), training=True, inplace=True),
    "rrelu for evaluation": F.rrelu,
    "uniform": lambda x: x.clone().uniform_() + x.clone().normal_(),
    "exponential": lambda x: x.clone().exponential_() + x.clone().geometric_(0.3) + x.clone().log_normal_(),
}


@pytest.mark.feature("1.25")
@pytest.mark.each_value
@pytest.mark.parametrize(("trains", "dynamic"), [(False, False), (True, True)])
@pytest.mark.parametrize("name", IN_ALL_LAYOUTS)
def test_tensors_in_all_layouts(name: str, trains: bool, dynamic: bool) -> None:
    def made(lay_out: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], tuple[torch.Tensor]]:
        return lambda: (lay_out(torch.randn(2, 3, 4, 5)).requires_grad_(trains),)

    with torch.set_grad_enabled(trains):
        calls = map(made, layouts.LAYOUTS.values())
        check(IN_ALL_LAYOUTS[name], *calls, rounds=1, aliases=True, exact=False, dynamic=dynamic)


def test_equal_calls_are_not_merged() -> None:
    compiled = torch.compile(lambda: (torch.rand(8), torch.rand(8)), backend="npugraph_ex", fullgraph=True)
    first, second = compiled()
    assert not torch.equal(first, second)
    third, _ = compiled()
    assert not torch.equal(first, third)


def test_gumbel_softmax() -> None:
    with torch.no_grad():
        check_captured(torch.nn.functional.gumbel_softmax, lambda: (torch.randn(3),), exact=False)


def test_own_generators() -> None:
    """Dynamo does not take a generator into a graph. With a graph break, results and generators are as in eager."""
    own, other = torch.Generator(), torch.Generator()

    def fn(x, generator):
        return torch.rand(3, generator=generator) + x.sin()

    with torch.no_grad():
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compile_ex(fn)(torch.ones(3), own)
        torch._dynamo.reset()
        compiled = compile_ex(fn, fullgraph=False)
        own.manual_seed(1)
        other.manual_seed(1)
        for _ in range(3):
            torch.testing.assert_close(compiled(torch.ones(3), own), fn(torch.ones(3), other))
            assert torch.equal(own.get_state(), other.get_state())
    assert artifacts()


def test_an_error_leaves_the_generator_where_eager_leaves_it() -> None:
    def fn(x, i):
        return torch.rand(3) + x[i] + torch.rand(3)

    compiled = compile_ex(fn)
    x, good, bad = torch.ones(4), torch.tensor([0]), torch.tensor([9])

    def runs(function) -> list[torch.Tensor]:
        torch.manual_seed(0)
        found = [function(x, good), torch.get_rng_state()]
        with pytest.raises(IndexError):
            function(x, bad)
        return [*found, torch.get_rng_state(), function(x, good), torch.get_rng_state()]

    with torch.no_grad():
        for got, want in zip(runs(compiled), runs(fn), strict=True):
            assert torch.equal(got, want)
