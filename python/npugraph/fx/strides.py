# SPDX-License-Identifier: Apache-2.0
"""Strides of fake tensors, and who sees them. Nothing here makes guards."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from npugraph.fx.schema import is_view
from npugraph.fx.values import evaluate, expressions, origin_of

aten = torch.ops.aten

# Views that need no relation of sizes to strides.
_PLAIN_VIEWS = {
    aten.alias.default,
    aten.detach.default,
    aten.diagonal.default,
    aten.expand.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    aten.unsqueeze.default,
}


def lies_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors of equal sizes have equal strides where strides matter."""
    strides = zip(expressions(one.shape), expressions(one.stride()), expressions(other.stride()), strict=True)
    return all(size == 1 or mine == theirs for size, mine, theirs in strides)


def order_of(value: torch.Tensor) -> list[int] | None:
    """Dimensions from the outermost in memory to the innermost. None if the tensor has gaps or overlaps."""
    order = _from_the_outermost(value)
    step: Any = 1
    for dim in reversed(order or ()):
        if expressions([value.stride(dim)]) != expressions([step]):
            return None
        step = step * value.shape[dim]
    return order


def closed(value: torch.Tensor) -> torch.Tensor | None:
    """A new fake tensor like ``value``, whose dimensions lie in the same order, without gaps. None if ``value`` has no
    gaps, or overlaps."""
    order = _from_the_outermost(value)
    if order is None or order_of(value) is not None or overlaps(value):
        return None
    return value.new_empty([value.shape[dim] for dim in order]).permute(
        [order.index(dim) for dim in range(value.dim())]
    )


def overlaps(value: torch.Tensor) -> bool:
    """Whether elements of a tensor may share memory."""
    order = _from_the_outermost(value)
    if order is None:
        return True
    last = 0  # the place of the last element in the dimensions so far
    for dim in reversed(order):
        size, stride = _hint(value.shape[dim]), _hint(value.stride(dim))
        if size is None:
            return True
        if size > 1:
            if stride <= last:
                return True
            last += (size - 1) * stride
    return False


def _from_the_outermost(value: torch.Tensor) -> list[int] | None:
    hints = list(map(_hint, value.stride()))
    return None if any(hint is None for hint in hints) else sorted(range(value.dim()), key=lambda dim: -hints[dim])


def _hint(number: Any) -> int | None:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def in_order(graph: fx.Graph, node: fx.Node, order: list[int]) -> fx.Node:
    """Adds, where the graph inserts, a copy of ``node`` whose dimensions lie in ``order``, and returns it."""
    back = [order.index(dim) for dim in range(len(order))]
    calls = (
        (aten.permute.default, (order,), {}),
        (aten.clone.default, (), {"memory_format": torch.contiguous_format}),
        (aten.permute.default, (back,), {}),
    )
    made = node
    for target, args, kwargs in calls:
        made = graph.call_function(target, (made, *args), kwargs)
        made.meta = origin_of(node)
        made.meta["val"] = evaluate(made)
    return made


def takes_any_strides(user: fx.Node) -> bool:
    """Whether a user of a tensor computes the same whatever its strides are. A result of the graph, ``as_strided`` and
    ``view`` do not."""
    if not is_operator(user) or "as_strided" in user.target._schema.name:
        return False
    return not is_view(user.target) or (user.target in _PLAIN_VIEWS and all(map(takes_any_strides, user.users)))


def is_operator(node: fx.Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
