# SPDX-License-Identifier: Apache-2.0
"""Views."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.python.operator_calls import Call

aten = torch.ops.aten


def calls() -> Iterator[Call]:
    image = torch.ones(2, 3, 4, 6)
    last = image.contiguous(memory_format=torch.channels_last)
    for tensor in (image, last, image.transpose(0, 3), image[:, :, 1::2], image[:0], torch.ones(())):
        yield aten.alias.default, (tensor,), {}
        yield aten.detach.default, (tensor,), {}
        yield aten.view.dtype, (tensor, torch.int32), {}
    yield aten.view.dtype, (image, torch.int16), {}
    yield aten.view.dtype, (image, torch.float64), {}
    for tensor in (image, last, image[:, :, 1::2]):
        yield aten.diagonal.default, (tensor, 0, 2, 3), {}
        yield aten.diagonal.default, (tensor, -1, -1, 1), {}
        yield aten.diagonal.default, (tensor, 1, 0, 3), {}
        yield aten.squeeze.dims, (tensor[:1], [0, 2]), {}
        yield aten.unfold.default, (tensor, 3, 3, 2), {}
        yield aten.unfold.default, (tensor, -2, 2, 1), {}
        yield aten.split_with_sizes.default, (tensor, [1, 2], 1), {}
        yield aten.slice.Tensor, (tensor, 3, 1, -1, 2), {}
        yield aten.expand.default, (tensor[:, :1], [5, 2, 7, -1, 6]), {}
    yield aten.unfold.default, (torch.ones(()), 0, 1, 1), {}
    yield _flat, (image,), {}
    yield _flat, (image.transpose(2, 3),), {}
    yield aten.view_as_complex.default, (image.unflatten(3, (3, 2)),), {}
    yield aten.view_as_real.default, (torch.ones(3, 4, dtype=torch.complex64).t(),), {}


def _flat(x: torch.Tensor) -> None:
    sizes, strides = list(x.shape), list(x.stride())
    sizes[:2], strides[:2] = [sizes[0] * sizes[1]], [strides[1]]
    aten._reshape_alias(x, sizes, strides)
    aten.view(x, sizes)
