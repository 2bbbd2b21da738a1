# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a call when there is little to compute: no work at all, ten tiny operators, a small MLP, and a
decode step of 28 layers of hidden size 64 on a static cache.

The side ``floor`` is torch.compile with a backend whose functions return at once, which is the cost of Dynamo alone.
The functions of ``floor, new result`` return new memory, as every function must that computes something. Only the
results of their first calls are right. Direct calls are compared with their own tasks, which run in a loop in C++ on
the same memory.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from benchmarks import sides
from benchmarks.harness import Request, Result, Side, measure, sample
from benchmarks.model_case import ModelCase, flatten_outputs, relative_errors
from benchmarks.model_case import reference64 as float64_reference
from benchmarks.special_models import CACHE_LENGTH, SPECIAL

NAME = "call_overhead"
BINDING = "us of a direct call beside its tasks"
Function = Callable[..., Any]


def no_op(x: torch.Tensor) -> torch.Tensor:
    """Returns a view, so that the call does no work."""
    return x.view(-1)


def ten_operators(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x * 2 + 1)
    y = torch.tanh(y - 0.5) * x
    y = torch.sigmoid(y).neg().exp()
    return (y + x).abs()


def run(request: Request) -> Iterator[Result]:
    all_sides = [*request.sides, *(sides.FLOORS if sides.OURS in request.sides else ())]
    for function in (no_op, ten_operators):
        if request.wants(NAME, function.__name__):
            yield compare_function(function, all_sides, request.samples)
    if sides.OURS in request.sides:
        all_sides += [sides.FILTERED, sides.DIRECT]
    for model, slow in (("mlp64", ()), ("decoder28", ("inductor",))):
        if request.wants(NAME, model):
            chosen = [side for side in all_sides if not (request.quick and side in slow)]
            yield compare_model(SPECIAL[model], chosen, request.samples)


def compare_function(function: Function, side_names: Sequence[str], samples: int) -> Result:
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    reference = [function(x.double())]
    compared = []
    for name in side_names:
        torch._dynamo.reset()
        prepared = sides.prepare(name, function)
        error = max(relative_errors([prepared(x)], reference))
        compared.append(Side(name, bind(prepared, x), error=error))
    return measure(NAME, function.__name__, compared, samples)


def bind(function: Function, *arguments: Any, **keywords: Any) -> Function:
    """Returns a call of ``function``. A closure adds less time to it than functools.partial with keywords."""
    return lambda: function(*arguments, **keywords)


def compare_model(case: ModelCase, side_names: Sequence[str], samples: int) -> Result:
    """All sides share the weights; each has its own inputs, and so its own cache."""
    model = case.build("base")
    reference = float64_reference(case, size="base")
    compared = [model_side(case, model, name, reference) for name in side_names]
    result = measure(NAME, case.name, compared, samples, most_calls=CACHE_LENGTH - 1)
    if sides.DIRECT in side_names:
        result.figures[BINDING] = around_tasks(case, model, samples)
    return result


def around_tasks(case: ModelCase, model: torch.nn.Module, samples: int) -> float:
    """Returns the microseconds of a direct call minus those of its tasks alone: the median over rounds that measure
    both."""
    inputs = case.inputs(size="base")
    direct = sides.without_dynamo(model)
    restart = inputs["cache"].reset if "cache" in inputs else lambda: None
    side = Side(sides.DIRECT, bind(direct, **inputs), before=restart, error=0)
    calls = CACHE_LENGTH - 2  # sample() makes one more call, which is not timed
    rounds = []
    for _ in range(samples):
        seconds = sample(side, calls)
        restart()
        rounds.append(1e6 * seconds - 1e-3 * direct.time_tasks(calls, **inputs))
    return statistics.median(rounds)


def model_side(case: ModelCase, model: torch.nn.Module, name: str, reference: list[torch.Tensor]) -> Side:
    prepared = sides.prepare(name, model)
    inputs = case.inputs(size="base")
    error = max(relative_errors(flatten_outputs(prepared(**inputs)), reference))
    if name == sides.DIRECT:
        prepared = sides.without_dynamo(model)
    cache = inputs.get("cache")
    return Side(name, bind(prepared, **inputs), before=cache.reset if cache else None, error=error)
