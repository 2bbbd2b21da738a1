# SPDX-License-Identifier: Apache-2.0
"""Random numbers and dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.python.operator_calls import Call, whole

aten = torch.ops.aten


def tensors() -> Iterator[torch.Tensor]:
    """Yields tensors between 0 and 1: dense in several orders, with holes, repeated, empty, and without dimensions."""
    yield torch.rand(3, 4, 5)
    yield torch.rand(3, 4, 5).transpose(0, 2)
    yield torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    yield torch.rand(3, 8)[:, ::2]
    yield torch.rand(8, 3)[::2].t()
    yield torch.rand(3, 1).expand(3, 4)
    yield torch.rand(4, 3).t().bfloat16()
    yield torch.rand(0, 3)
    yield torch.rand(())


def is_dense(x: torch.Tensor) -> bool:
    """Whether a copy of ``x`` has its strides."""
    return x.clone().stride() == x.stride()


def sizes() -> Iterator[list[int]]:
    yield [2, 3]
    yield [4, 1, 5]
    yield []
    yield [0, 3]


def fresh() -> Iterator[Call]:
    for size in sizes():
        for dtype in (torch.float32, torch.bfloat16):
            yield aten.rand.default, (size,), {"dtype": dtype}
            yield aten.randn.default, (size,), {"dtype": dtype, "device": torch.device("cpu")}
            yield aten.rand.generator, (size,), {"generator": None, "dtype": dtype}
            yield aten.randn.generator, (size,), {"generator": None, "dtype": dtype}
            yield aten.normal.float_float, (0.0, 1.0, size), {"dtype": dtype}
        yield aten.rand.default, (size,), {}
        yield aten.normal.float_float, (0.0, 1.0, size), {}
        for options in ({}, {"dtype": torch.int32}, {"dtype": torch.float32}, {"dtype": None}):
            yield aten.randint.default, (10, size), options
            yield aten.randint.low, (3, 10, size), options
            yield aten.randint.generator, (10, size), {"generator": None, **options}
            yield aten.randint.low_generator, (3, 10, size), {"generator": None, **options}
    for options in ({}, {"dtype": torch.int32}, {"dtype": torch.float32}, {"dtype": None}):
        yield aten.randperm.default, (7,), options
        yield aten.randperm.generator, (0,), {"generator": None, **options}


def sized_by(x: torch.Tensor) -> Iterator[Call]:
    """Yields calls that make random numbers of the size of ``x``."""

    def sized(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *args, **kwargs: function(*args, list(x.shape), **kwargs)

    yield sized(aten.rand.default), (x,), {"dtype": torch.float32}
    yield sized(aten.randint.low), (x, 2, 5), {}
    yield sized(aten.normal.float_float), (x, 0.0, 1.0), {"dtype": torch.float64}
    if x.dim() > 0:
        yield (lambda x: aten.randperm.default(x.shape[0])), (x,), {}


def alike(x: torch.Tensor) -> Iterator[Call]:
    """Yields calls that make random numbers like ``x``. Overloads called ``from`` are missing: FX cannot write code for
    them."""
    for options in ({}, {"dtype": torch.float64}, {"memory_format": torch.contiguous_format}):
        yield aten.rand_like.default, (x,), options
        yield aten.randn_like.default, (x,), options
        yield aten.randint_like.default, (x, 9), options
        yield aten.randint_like.low_dtype, (x, 2, 9), options
    yield aten.bernoulli.default, (x,), {}
    yield aten.bernoulli.p, (x, 0.5), {}
    yield aten.normal.Tensor_float, (x,), {}
    # Eager makes these in row-major order, FakeTensor in that of the argument.
    if x.is_contiguous():
        yield aten.poisson.default, (x,), {}
        yield aten._standard_gamma.default, (x,), {}
        yield aten.normal.float_Tensor, (1.0, x), {}
    yield aten.normal_functional.default, (x, 1.0, 2.0), {}
    # Eager makes a dense tensor, FakeTensor one with holes.
    if is_dense(x):
        yield aten.uniform.default, (x, 1.0, 2.0), {}
    yield aten.exponential.default, (x,), {}
    yield aten.geometric.default, (x, 0.5), {}
    yield aten.cauchy.default, (x,), {}
    yield aten.log_normal.default, (x,), {}
    yield aten.random.default, (x,), {}
    yield aten.random.to, (x, 9), {}


def in_place(x: torch.Tensor) -> Iterator[Call]:
    yield aten.bernoulli_.float, (x, 0.5), {}
    yield aten.bernoulli_.Tensor, (x, torch.rand(x.shape)), {}
    for function in (aten.normal_, aten.uniform_, aten.exponential_, aten.cauchy_, aten.log_normal_, aten.random_):
        yield function.default, (x,), {}
    yield aten.geometric_.default, (x, 0.5), {}
    yield aten.random_.to, (x, 9), {}
    yield whole(aten.dropout_.default), (x, 0.5, True), {}
    yield whole(aten.alpha_dropout_.default), (x, 0.5, True), {}
    yield whole(aten.rrelu_.default), (x,), {"training": True}
    yield aten.rrelu_with_noise_.default, (x, torch.rand(x.shape)), {"training": True}


def dropout(x: torch.Tensor) -> Iterator[Call]:
    yield aten.native_dropout.default, (x, 0.5, True), {}
    yield aten._fused_dropout.default, (x, 0.5), {}
    for train in (True, False):
        # Where nothing is dropped, eager's dropout gives the argument itself and native_dropout a dense one.
        # FakeTensor does it the other way round.
        if train or is_dense(x):
            yield whole(aten.dropout.default), (x, 0.5, train), {}
        # FakeTensor turns bfloat16 into float32 if sizes are symbols.
        if x.dtype is torch.float32:
            yield whole(aten.alpha_dropout.default), (x, 0.5, train), {}
        # Eager makes these in row-major order, FakeTensor in that of the argument.
        if x.is_contiguous():
            yield whole(aten.rrelu.default), (x, 0.1, 0.2, train), {}
            yield aten.rrelu_with_noise.default, (x, torch.rand(x.shape), 0.1, 0.2, train), {}
        yield aten.rrelu_with_noise_functional.default, (x, torch.rand(x.shape), 0.1, 0.2, train), {}
    if is_dense(x):
        for train in (False, None):
            yield aten.native_dropout.default, (x, 0.5, train), {}
        for p in (0.0, 1.0):
            yield aten.native_dropout.default, (x, p, True), {}
            yield whole(aten.dropout.default), (x, p, True), {}
            yield whole(aten.dropout.default), (x, p, False), {}


def pairs() -> Iterator[Call]:
    x, transposed = torch.rand(3, 4), torch.rand(4, 3).t()
    for a, b in ((x, x), (x, torch.rand(4)), (x, torch.rand(())), (x, torch.rand(3, 1)), (torch.rand(2, 1, 4), x)):
        yield aten.normal.Tensor_Tensor, (a, b), {}
        yield aten.binomial.default, ((a * 9).floor(), b), {}
    # Eager makes this one in row-major order and in the type of the means, FakeTensor in that of both.
    yield aten.normal.Tensor_Tensor, (transposed, x), {}
    for a, b in ((x, transposed), (transposed, x), (transposed, transposed), (x, torch.rand(4)), (x.bfloat16(), x)):
        yield aten.bernoulli.Tensor, (a, b), {}
        yield aten.binomial.default, ((a * 9).floor(), b.to(a.dtype)), {}
    for weights in (torch.rand(5), torch.rand(3, 5), torch.rand(5, 3).t(), torch.rand(3, 5).double()):
        yield aten.multinomial.default, (weights, 2), {}
        yield aten.multinomial.default, (weights, 7, True), {}
    for alpha in (torch.rand(5), torch.rand(3, 5), torch.rand(5, 3).t(), torch.rand(3, 10)[:, ::2]):
        yield aten._sample_dirichlet.default, (alpha,), {}


def calls() -> Iterator[Call]:
    yield from fresh()
    for x in tensors():
        for part in (sized_by, alike, dropout):
            yield from part(x)
        if x.dim() == 0 or 0 not in x.stride():
            yield from in_place(x)
    yield from pairs()
