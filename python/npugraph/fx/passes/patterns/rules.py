# SPDX-License-Identifier: Apache-2.0
"""Helpers for the built-in rules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._inductor.pattern_matcher import Match, PatternExpr
from torch._subclasses.fake_tensor import FakeTensorMode

from npugraph.fx.passes.conditions import Condition, same_arguments
from npugraph.fx.passes.replacements import register_replacement

npu = torch.ops.npu

# The value that stands for any epsilon while a rule is traced. No call has it by chance.
EPSILON = 2e-6


def examples(*sizes: Sequence[int], dtype: torch.dtype = torch.float16) -> list[torch.Tensor]:
    """Fake tensors to trace rules with."""
    with FakeTensorMode():
        return [torch.empty(size, dtype=dtype) for size in sizes]


def add(
    name: str,
    search: Callable[..., Any],
    replace: Callable[..., Any],
    inputs: Sequence[Any],
    conditions: Sequence[Condition] = (),
    pattern: PatternExpr | None = None,
    numbers: dict[str, float | int] | None = None,
) -> None:
    """Registers a built-in rule, unless a user has registered its pattern. ``pattern`` and ``numbers`` are the
    arguments ``search_fn_pattern`` and ``scalar_workaround`` of ``register_replacement``."""
    register_replacement(
        _named(name, search),
        replace,
        inputs,
        extra_check=list(conditions) if pattern is None else [same_arguments, *conditions],
        search_fn_pattern=pattern,
        scalar_workaround=numbers,
        skip_duplicates=True,
    )


def add_with_epsilon(
    name: str,
    search: Callable[..., Any],
    replace: Callable[..., Any],
    inputs: Sequence[Any],
    conditions: Sequence[Condition] = (),
    numbers: dict[str, float | int] | None = None,
) -> None:
    """Registers two rules for functions that take a keyword ``epsilon``: one with its default and one with any other
    value."""
    names = [p.name for p in inspect.signature(search).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    plain = [of_positional(function, names) for function in (search, replace)]
    add(name, *plain, inputs, conditions, numbers=numbers)
    with_epsilon = [of_positional(function, [*names, "epsilon"]) for function in (search, replace)]
    add(f"{name}_epsilon", *with_epsilon, inputs, conditions, numbers={**(numbers or {}), "epsilon": EPSILON})


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the function another name, which becomes that of its rule."""

    @functools.wraps(function)
    def call(*args: Any, **arguments: Any) -> Any:
        return function(*args, **arguments)

    call.__qualname__ = name
    return call


def of_positional(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Wraps the function so that it takes only positional arguments of these names, as tracing wants it."""

    def call(*args: Any) -> Any:
        return function(**dict(zip(names, args, strict=True)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__module__ = function.__module__
    call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return call


def some_results(function: Callable[..., Any], *indices: int) -> Callable[..., Any]:
    """Wraps the function so that it returns only some of its results."""

    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        results = function(**arguments)
        return tuple(results[i] for i in indices) if len(indices) > 1 else results[indices[0]]

    return call


def value_of(argument: Any) -> Any:
    """The fake tensor of an argument, or the argument itself if it is a number."""
    return argument.meta["val"] if isinstance(argument, fx.Node) else argument


def call_of(match: Match, operator: torch._ops.OpOverload) -> fx.Node:
    """The only call of an operator in a match."""
    (node,) = (node for node in match.nodes if node.target is operator)
    return node
