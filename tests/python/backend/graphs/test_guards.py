# SPDX-License-Identifier: Apache-2.0
"""Guards of models with many modules: the next call sees every change in one of them."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from npugraph import guards
from tests.python.backend.checks import assert_same, compile_ex


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.shared = self.first
        self.norm = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        x = self.second(self.first(x)) + self.shared(x) + self.norm(x)
        return x + 1 if type(self.second) is nn.Linear else x - 1


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])
        self.factors = nn.ParameterList([nn.Parameter(torch.ones(4))])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for factor in self.factors:
            x = x * factor
        return x * self.named["a"]


class Tensors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", noted(torch.ones(4)))

    def forward(self, x):
        return x * self.scale + getattr(self.scale, "note", 1.0)


class Values(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.number = 2.0

    @property
    def doubled(self) -> float:
        return self.number * 2

    def forward(self, x):
        return x + self.doubled + (1.0 if self.training else 3.0)


class Objects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair, self.holder = (2.0, Holder()), Holder()
        self.table, self.ordered, self.choices = {"k": 2.0}, collections.OrderedDict(a=1.0, b=2.0), {1}

    def forward(self, x):
        x = x + self.pair[1].value * self.pair[0] + self.holder.value
        return x + self.table["k"] + sum(self.ordered.values()) + (2.0 if 1 in self.choices else 5.0)


class Functions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function, self.with_default = multiply_by(2.0), multiply

    def forward(self, x):
        return self.with_default(self.function(x))


class Holder:
    def __init__(self) -> None:
        self.value = 2.0


def multiply_by(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def multiplied(x):
        return x * factor

    return multiplied


def multiply(x, factor=2.0):
    return x * factor


class OtherLinear(nn.Linear):
    def forward(self, x):
        return x * 100


Change = Callable[[Any], Any]


def set_item(container: str, key: Any, value: Callable[[], Any]) -> Change:
    return lambda part: getattr(part, container).__setitem__(key, value())


def set_attribute(name: str, value: Callable[[], Any], of: Callable[[Any], Any] = lambda part: part) -> Change:
    return lambda part: setattr(of(part), name, value())


def linear() -> nn.Linear:
    return nn.Linear(4, 4)


CHANGES: dict[type[nn.Module], dict[str, Change]] = {
    Products: {
        "class": set_attribute("__class__", lambda: OtherLinear, of=lambda part: part.second),
        "module": set_attribute("second", linear),
        "module of another class": set_attribute("second", lambda: OtherLinear(4, 4)),
        "no longer shared": set_attribute("shared", linear),
        "parameter": set_attribute("weight", lambda: nn.Parameter(torch.randn(4, 4)), of=lambda part: part.second),
        "parameter shared": lambda part: setattr(part.second, "weight", part.first.weight),
        "data": lambda part: setattr(part.second.weight, "data", torch.randn(4, 4)),
        "data with other strides": lambda part: setattr(part.second.weight, "data", torch.randn(4, 4).t()),
        "transposed in place": lambda part: part.second.weight.t_(),
        "parametrised": lambda part: nn.utils.parametrizations.weight_norm(part.second),
        "under a parametrisation": lambda part: part.norm.parametrizations.weight.original0.mul_(2),
        "double and back": lambda part: part.double().float(),
    },
    Containers: {
        "module": set_item("layers", 0, linear),
        "module of another class": set_item("layers", 1, nn.ReLU),
        "another module": lambda part: part.layers.append(linear()),
        "fewer modules": lambda part: part.layers.__delitem__(1),
        "parameter in a list": set_item("factors", 0, lambda: nn.Parameter(torch.full((4,), 2.0))),
        "another parameter": lambda part: part.factors.append(nn.Parameter(torch.full((4,), 2.0))),
        "parameter in a dict": set_item("named", "a", lambda: nn.Parameter(torch.full((3, 4), 2.0))),
    },
    Tensors: {
        "attribute": set_attribute("note", lambda: 7.0, of=lambda part: part.scale),
        "another size": set_attribute("scale", lambda: torch.randn(3, 4)),
        "in _buffers": set_item("_buffers", "scale", lambda: torch.randn(3, 4)),
        "data of another size": lambda part: setattr(part.scale, "data", torch.randn(3, 4)),
        "data of another dtype": lambda part: setattr(part.scale, "data", torch.randn(4, dtype=torch.float16)),
        "resized": lambda part: part.scale.resize_(3, 4).copy_(torch.randn(3, 4)),
    },
    Values: {
        "number": set_attribute("number", lambda: 3.0),
        "in __dict__": set_item("__dict__", "number", lambda: 3.0),
        "new __dict__": lambda part: setattr(part, "__dict__", {**part.__dict__, "number": 3.0}),
        "training": lambda part: part.train(),
    },
    Objects: {
        "in a tuple": set_attribute("value", lambda: 3.0, of=lambda part: part.pair[1]),
        "object": set_attribute("value", lambda: 3.0, of=lambda part: part.holder),
        "dict": set_item("table", "k", lambda: 5.0),
        "ordered dict": set_item("ordered", "a", lambda: 5.0),
        "set": lambda part: part.choices.discard(1),
    },
    Functions: {
        "function": set_attribute("function", lambda: multiply_by(4.0)),
        "closure": set_attribute("cell_contents", lambda: 9.0, of=lambda part: part.function.__closure__[0]),
        "default": lambda part: setattr(part.with_default, "__defaults__", (7.0,)),
        "code": lambda part: setattr(part.with_default, "__code__", (lambda x, factor: x + factor).__code__),
    },
}


def noted(tensor: torch.Tensor) -> torch.Tensor:
    tensor.note = 5.0
    return tensor


@pytest.fixture(autouse=True)
def function_as_it_was():
    defaults, code = multiply.__defaults__, multiply.__code__
    yield
    multiply.__defaults__, multiply.__code__ = defaults, code


def compiled_chain(part: type[nn.Module]) -> tuple[nn.Module, Callable[..., torch.Tensor], torch.Tensor]:
    """Returns a chain of at least two modules of type ``part``, its compiled form, which has been called, and an input.
    The chain has too many modules for a check one by one."""
    each = sum(1 for _ in part().modules())
    chain = nn.Sequential(*[part() for _ in range(max(2, guards.FEWEST_MODULES // each + 1))])
    chain.eval().requires_grad_(False)
    compiled, x = compile_ex(chain, dynamic=False, options={"generate_code": False}), torch.randn(3, 4)
    for _ in range(3):
        assert_same(compiled(x), chain(x), exact=False)
    return chain, compiled, x


@pytest.mark.parametrize(("part", "change"), [(part, change) for part in CHANGES for change in CHANGES[part]])
@torch.no_grad()
def test_changes_between_calls_are_seen(part, change) -> None:
    chain, compiled, x = compiled_chain(part)
    before = chain(x)
    CHANGES[part][change](chain[1])
    for _ in range(2):
        assert_same(compiled(x), chain(x), exact=False)
    assert change in ("double and back", "parametrised") or not torch.equal(chain(x), before)


@torch.no_grad()
def test_values_of_parameters_need_no_compile() -> None:
    chain, compiled, x = compiled_chain(Products)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    chain[0].first.weight.mul_(2)
    chain[0].second.weight = nn.Parameter(torch.randn(4, 4), requires_grad=False)
    for _ in range(2):
        assert_same(compiled(x), chain(x), exact=False)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


def test_guards_of_arguments_only() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.factor = 2

        def forward(self, x, n):
            return self.linear(x) * self.factor + n

    model = Scaled()
    kept: list[str] = []

    def keep(entries):
        flags = guards.arguments_only(entries)
        kept.extend(entry.name for entry, flag in zip(entries, flags, strict=True) if flag)
        return flags

    with torch.no_grad():
        compiled = compile_ex(model, options={"guard_filter_fn": keep}, dynamic=False)
        x = torch.randn(2, 4)
        assert_same(compiled(x, 3), model(x, 3), exact=False)
        assert {"x", "n"} <= set(kept)
        assert not any("self" in name for name in kept)
        # Every change of an argument is seen, and so are new values of a parameter.
        model.linear.weight = nn.Parameter(torch.randn(4, 4))
        assert_same(compiled(x, 5), model(x, 5), exact=False)
        assert_same(compiled(torch.randn(3, 4).double().float(), 5).shape, (3, 4))
        # No other change of the model is seen.
        want = model(x, 5)
        model.factor = 7
        assert_same(compiled(x, 5), want, exact=False)
        torch._dynamo.reset()
        assert_same(compiled(x, 5), model(x, 5), exact=False)
