# SPDX-License-Identifier: Apache-2.0
"""Graphs of operators that are cut where converters are missing: what the parts get and return, and that together they
do what the graph does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx
from torch.func import functionalize

from npugraph.ge.converters import registry
from npugraph.ge.fx.graph import Built, build
from npugraph.ge.fx.partition import Partition, convert
from npugraph.ge.fx.parts import part_name
from tests.python.ge.converted import formula, run, traced, user_inputs

pytestmark = pytest.mark.usefixtures("order_is_missing")

STEPS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "relu": lambda x, y: torch.relu(x),
    "sort": lambda x, y: torch.sort(x, -1)[0],
    "order": lambda x, y: torch.sort(x, 0)[1].float() + y,
    "cummax": lambda x, y: torch.cummax(x, 0)[0],
    "row": lambda x, y: x + y[0],
    "flat": lambda x, y: x.reshape(-1).view(y.shape),
    "pair": lambda x, y: x.unbind(0)[1] * y,
    "turn": lambda x, y: x.t(),
    "split": lambda x, y: torch.cat([*reversed(x.split([1, x.shape[0] - 1]))]),
    "mask": lambda x, y: x + torch.arange(x.shape[0], dtype=x.dtype),
    "rand": lambda x, y: x + torch.rand_like(y),
    "write": lambda x, y: x.copy_(y + 1),
    "increment": lambda x, y: x.add_(1),
}
# Operators that may lose their converters; those that sort, and rand_like, have none.
CONVERTED = ("mul.Tensor", "relu.default", "copy_.default", "cat.default", "select.int", "view.default", "t.default")


def program(choose: random.Random) -> Callable[..., Any]:
    steps = [(choose.choice([*STEPS]), choose.random(), choose.random()) for _ in range(choose.randint(3, 14))]

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        values = [x, y, z]
        for name, one, other in steps:
            operands = (values[int(place * len(values))] for place in (one, other))
            values.append(STEPS[name](*operands))
        return tuple(value + 0 for value in values[3:])

    return function


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(4, 4, generator=generator) for _ in range(3)]


def cut(gm: fx.GraphModule) -> Built | Partition:
    return convert(gm, user_inputs(gm), (f"g{number}" for number in itertools.count(1)), build)


def runnable(made: Built | Partition) -> Callable[..., Any]:
    if isinstance(made, Built):
        return lambda *args: run(made, args)
    for index, part in enumerate(made.parts):
        setattr(made.gm, part_name(index), lambda *args, part=part.built: run(part, args))
    return made.gm.forward


def called(function: Callable[..., Any], args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    torch.manual_seed(5)
    return [*function(*args), *args]


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    function = functionalize(program(choose), remove="mutations")
    for name in choose.sample(CONVERTED, choose.randint(0, 3)):
        monkeypatch.delitem(registry._converters, f"aten.{name}")
    gm = traced(function, *inputs(), dynamic=choose.random() < 0.5)
    found, expected = called(runnable(cut(gm)), inputs()), called(gm.forward, inputs())
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def formulas(made: Built | Partition) -> list[str]:
    assert isinstance(made, Partition)
    return [formula(part.built.graph) for part in made.parts]


def test_only_results_of_calls_cross() -> None:
    """Views, numbers and constants are made in the parts that read them."""

    def function(x: torch.Tensor) -> Any:
        y = x + torch.tensor([1.0, 2.0])
        z = torch.sort(y.t())[0]
        return torch.neg(y.t()) + torch.neg(z.view(-1, x.shape[0]) + torch.tensor(3.0))

    made = cut(traced(function, torch.ones(4, 2), dynamic=True))
    like_x = "Pack([2, Gather(Shape(add, dtype=9), 0)])"
    assert formulas(made) == [
        "Add(x, TensorMove([1.0, 2.0]))",
        f"Add(Neg(Transpose(add, [1, 0])), Neg(Add(Reshape(getitem, {like_x}), TensorMove(3.0))))",
    ]


def test_tensors_do_not_cross_for_their_sizes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        longer = torch.cat([x, x[:1]]) * 2
        rows = torch.ops.aten.sym_size.int(longer, 0)
        return torch.sort(torch.relu(longer))[0] * rows

    made = cut(traced(function, torch.ones(4, 3), dynamic=True))
    first, second = formulas(made)
    assert first.startswith("Relu(Mul(") and ";" not in first
    assert second == "Mul(getitem, Cast(Gather(Shape(getitem, dtype=9), 0), FLOAT))"


def test_calls_that_need_no_others_are_where_they_are_read() -> None:
    """A cast of a weight is not kept while other graphs run."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        weight = w.double()
        return torch.sort(torch.relu(x))[0].double() * weight

    made = cut(traced(function, torch.ones(4, 2), torch.ones(4, 2)))
    assert formulas(made) == ["Relu(x)", "Mul(Cast(getitem, DOUBLE), Cast(w, DOUBLE))"]


def test_a_written_input_is_read_in_place_of_its_value() -> None:
    """The graph that updates a cache does not return it, too."""

    def step(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return torch.cummax(cache * 2, 0)[0] * cache

    gm = traced(functionalize(step, remove="mutations_and_views"), torch.ones(4, 4), torch.ones(4, 4))
    made = cut(gm)
    assert formulas(made) == ["Mul(Add(cache, x), 2.0); Assign(cache, Add(cache, x))", "Mul(getitem, add)"]
    found, expected = (called(function, inputs()[:2]) for function in (runnable(made), gm.forward))
    assert all(map(torch.equal, found, expected))


def test_values_that_ge_does_not_have_stay_outside() -> None:
    gm = traced(lambda x: torch.neg((x * 2).to_sparse()).to_dense() + 1, torch.eye(4))
    made = cut(gm)
    assert formulas(made) == ["Mul(x, 2.0)", "Add(_to_dense, 1.0)"]
    assert torch.equal(runnable(made)(torch.eye(4)), 1 - 2 * torch.eye(4))
