# SPDX-License-Identifier: Apache-2.0
"""Measures two independent chains of products, which are too small to be split among threads, on one stream and on two.
The replay runs two streams at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from benchmarks.harness import Request, Result, Side, measure
from benchmarks.model_case import relative_error

NAME = "two_streams"
ONE, TWO = "one stream", "two streams"
ROWS, WIDTH, LENGTH = 12, 96, 40  # the sizes of a chain
_marks = torch.ops.npugraph_ex


def run(request: Request) -> Iterator[Result]:
    if request.wants(NAME, "small products"):
        yield compare(request.samples)


def compare(samples: int) -> Result:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, WIDTH, generator=generator)
    weights = torch.randn(2, LENGTH, WIDTH, WIDTH, generator=generator) / WIDTH**0.5
    first, second = list(weights[0]), list(weights[1])
    reference = on_one([w.double() for w in first], [w.double() for w in second])(x.double())
    compared = []
    for name, function in ((ONE, on_one(first, second)), (TWO, on_two(first, second))):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="npugraph_ex")
        with torch.no_grad():
            error = relative_error(compiled(x), reference)
        compared.append(Side(name, _bind(compiled, x), error=error))
    return measure(NAME, "small products", compared, samples)


def _bind(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], torch.Tensor]:
    def call() -> torch.Tensor:
        with torch.no_grad():
            return function(x)

    return call


def chain(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    for weight in weights:
        x = (x @ weight).tanh()
    return x


def on_one(first: list[torch.Tensor], second: list[torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: chain(x, first) + chain(x, second)


def on_two(first: list[torch.Tensor], second: list[torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        _marks.scope_enter(["_user_stream_label"], ["side"])
        a = chain(x, first)
        _marks.scope_exit()
        b = chain(x, second)
        _marks.tagged_stream_wait_stream("main", "side")
        return a + b

    return function
