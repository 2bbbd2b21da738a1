# SPDX-License-Identifier: Apache-2.0
"""Collectives, which need no process group over fake tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import npugraph.collectives  # noqa: F401  defines the operators
from tests.python.operator_calls import Call

ops = torch.ops.npugraph

GROUP = ("group", [0, 1])


def calls() -> Iterator[Call]:
    image = torch.ones(4, 3, 6, 5)
    row, half = torch.ones(4), torch.ones(6, 4, dtype=torch.bfloat16)
    for tensors in ([image], [row, half], [half.t(), image[:, ::2]]):
        yield ops.all_reduce.default, (tensors, "sum", *GROUP), {}
        yield ops.all_gather.default, (tensors, *GROUP), {}
        yield ops.reduce_scatter.default, (tensors, "sum", *GROUP), {}
    yield ops.all_reduce.default, ([torch.ones(())], "sum", *GROUP), {}
    for tensor in (image, half, row):
        yield ops.all_to_all.default, (tensor, [1, 2], [1, tensor.shape[0] - 1], *GROUP), {}
        yield ops.all_to_all.default, (tensor, [0, 0], [0, tensor.shape[0]], *GROUP), {}
        # Fake tensors keep the strides of other tensors, where eager makes a row-major result.
        yield ops.broadcast.default, (tensor, 0, *GROUP), {}
        yield ops.broadcast_.default, (tensor, 0, *GROUP), {}
        yield ops.all_reduce_.default, ([tensor, half], "sum", *GROUP), {}
        yield ops.all_gather_into.default, (tensor, torch.cat([tensor, tensor]), *GROUP), {}
        yield ops.reduce_scatter_into.default, (torch.cat([tensor, tensor]), "sum", tensor, *GROUP), {}
