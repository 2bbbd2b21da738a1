# SPDX-License-Identifier: Apache-2.0
"""Sums with gradients of embeddings -> rows that are added where they belong.

A weight that is an embedding and the last layer, too, has the gradient x + e, where e is a gradient of an embedding: as
large as the weight, and zero but for a few rows. Only these rows are computed and added to x.
"""

from __future__ import annotations

import functools

import torch
from torch import fx

from npugraph.fx.decompose.parts import put_parts

OPERATOR = torch.ops.aten.embedding_dense_backward.default
_SUM = torch.ops.aten.add.Tensor


def add_rows_in_sums(gm: fx.GraphModule) -> None:
    """Replaces each sum of a tensor and a gradient of an embedding that nothing else reads, in place."""
    for node in gm.graph.find_nodes(op="call_function", target=OPERATOR):
        grad, indices, _, padding_index, by_frequency = node.args
        users = list(node.users)
        if len(users) != 1 or users[0].target is not _SUM or users[0].kwargs or by_frequency:
            continue
        if node.meta["val"].dtype not in (torch.float32, torch.float64):  # each addition of a row would round
            continue
        (total,) = users
        others = [operand for operand in total.args if operand is not node]
        if len(others) == 1 and isinstance(others[0], fx.Node) and _is_like(others[0], node) and _is_like(total, node):
            total.args = (others[0], grad, indices)
            put_parts(gm, total, functools.partial(add_rows, padding_index=padding_index))
            gm.graph.erase_node(node)


def _is_like(node: fx.Node, other: fx.Node) -> bool:
    a, b = node.meta["val"], other.meta["val"]
    return isinstance(a, torch.Tensor) and (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)


def add_rows(x: torch.Tensor, rows: torch.Tensor, indices: torch.Tensor, *, padding_index: int) -> torch.Tensor:
    """Returns ``x`` [n, d] with each of ``rows`` [.., d] added to the row that ``indices`` [..] name; those that name
    ``padding_index`` are left out."""
    if padding_index >= 0:
        rows = rows.masked_fill((indices == padding_index).unsqueeze(-1), 0)
    return x.index_put([indices], rows.to(x.dtype), accumulate=True)
