# SPDX-License-Identifier: Apache-2.0
"""Fresh tensors of a given size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from tests.python.operator_calls import Call

aten = torch.ops.aten

TYPES = (torch.float32, torch.bfloat16, torch.int64)


def calls() -> Iterator[Call]:
    # Without a dtype, torch's default dtype decides, and the rules leave the type open.
    yield aten.eye.default, (3,), {}
    yield aten.linspace.default, (0, 1, 5), {}
    for dtype in TYPES:
        given = {"dtype": dtype}
        for n in (0, 1, 4):
            yield aten.eye.default, (n,), given
            yield aten.eye.m, (n, 3), given
            yield aten.eye.m, (3, n), given
            yield aten.linspace.default, (0, 1.5, n), given
            yield aten.linspace.default, (5, 2, n), given
            yield aten.logspace.default, (0, 1.5, n), given
            yield aten.logspace.default, (1, 2, n, 2.0), given
        yield aten.empty_permuted.default, ((2, 3, 4), (0, 1, 2)), given
        yield aten.empty_permuted.default, ((2, 3, 4), (2, 0, 1)), given
        yield aten.empty_permuted.default, ((2, 0, 4), (1, 2, 0)), given
        yield aten.empty_permuted.default, ((), ()), given
        yield aten.scalar_tensor.default, (2,), given
        yield aten.full.default, ((2, 3), 2), given
        yield aten.arange.start, (1, 7), given
        yield aten.arange.start, (0.5, 3), given
        yield aten.arange.default, (2.5,), given
    for n, dtype in itertools.product((0, 1, 4), (torch.float32, torch.bfloat16)):
        yield aten.hann_window.default, (n,), {"dtype": dtype}
        yield aten.hamming_window.default, (n,), {"dtype": dtype}
        yield aten.arange.start_step, (n + 1, n - 2, -0.25), {"dtype": dtype}
    yield aten.eye.m, (3, 2), {"dtype": torch.bool}
    yield aten.linspace.default, (0, 1j, 3), {"dtype": torch.complex64}
    yield aten.arange.start, (1, 7), {}
    yield aten.arange.start, (1.5, 7), {}
    yield aten.full.default, ((2, 3), True), {}
    yield from _of_symbolic_sizes()
    yield from _like()


def _of_symbolic_sizes() -> Iterator[Call]:
    def sized(x: torch.Tensor) -> None:
        n, m = x.shape
        for function in (aten.zeros, aten.ones, aten.empty.memory_format):
            function((n, 2 * m, n + m), dtype=torch.float32)
        aten.eye(n, dtype=torch.float32)
        aten.eye.m(n, m, dtype=torch.float32)
        aten.arange(n + m)
        aten.arange.start_step(n, n + m, 2)
        aten.linspace(0, 1, n, dtype=torch.float32)
        aten.logspace(0, 1, n * m, dtype=torch.float32)
        aten.hann_window(n, dtype=torch.float32)
        aten.hamming_window(n + m, dtype=torch.float32)
        aten.empty_permuted((n, m, 3), (1, 2, 0), dtype=torch.float32)
        aten.empty_strided((n, m), (1, n), dtype=torch.float32)
        aten.new_zeros(x, (m, n))
        aten.new_empty_strided(x, (m, n), (1, m))

    yield sized, (torch.ones(3, 5),), {}


def _like() -> Iterator[Call]:
    image = torch.ones(2, 3, 4, 5)
    last = image.contiguous(memory_format=torch.channels_last)
    for tensor in (image, last, image.transpose(0, 3), image[:, ::2], image[:, :1].expand(2, 3, 4, 5), image[:0]):
        for function in (aten.zeros_like, aten.ones_like, aten.empty_like):
            yield function.default, (tensor,), {}
            yield function.default, (tensor,), {"dtype": torch.int64, "memory_format": torch.contiguous_format}
            yield function.default, (tensor,), {"memory_format": torch.channels_last}
        yield aten.full_like.default, (tensor, 2), {}
        yield aten.new_empty.default, (tensor, (2, 3)), {}
        yield aten.new_full.default, (tensor, (2, 3), 1.5), {"dtype": torch.bool}
        yield aten.new_ones.default, (tensor, ()), {}
