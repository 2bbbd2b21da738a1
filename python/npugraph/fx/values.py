# SPDX-License-Identifier: Apache-2.0
"""Fake values of nodes, how they lie in memory, who sees that, and where nodes came from. Nothing here makes guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from npugraph.fx.schema import is_view


def evaluate(node: fx.Node) -> Any:
    """Calls the node's target with the values of its arguments, and returns the result."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    return node.target(*args, **kwargs)


def attribute(gm: fx.GraphModule, target: str) -> Any:
    """Returns the attribute that a ``get_attr`` node with this target refers to."""
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


def is_same(one: Any, other: Any) -> bool:
    """Whether two values, or lists of values, are the same or describe tensors of equal layout, type and device. Adds
    no guards."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return one is other
    return one is other or _facts(one) == _facts(other)


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return tensor.dtype, tensor.device, tensor.requires_grad, *expressions(sizes)


def expressions(numbers: Iterable[Any]) -> list[Any]:
    """Numbers of torch as numbers and sympy expressions, which can be compared without guards."""
    return [
        number.node.expr if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) else number
        for number in numbers
    ]


_ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack")


def origin_of(node: fx.Node) -> dict[str, Any]:
    """The metadata of a node that is also true of nodes made from it."""
    return {key: node.meta[key] for key in _ORIGIN if key in node.meta}


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


def _lies_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors of equal sizes have equal strides where strides matter."""
    strides = zip(expressions(one.shape), expressions(one.stride()), expressions(other.stride()), strict=True)
    return all(size == 1 or mine == theirs for size, mine, theirs in strides)


def is_row_major(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of a dense row-major tensor. Strides of dimensions of size 1 do not matter."""
    return _is_dense_in(range(tensor.dim()), tensor)


def is_strided(value: Any) -> bool:
    """Whether a value is a tensor whose elements lie by strides, and not a sparse one or another kind."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the strides are those of a dense tensor with its dimensions in some order. False if nobody knows it."""
    return memory_order(tensor) is not None


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """The dimensions of a dense tensor as they lie in memory, the one with the largest stride first. None if the tensor
    is not dense, or if nobody knows it."""
    if is_row_major(tensor):
        return list(range(tensor.dim()))
    order = _from_the_outermost(tensor)
    return order if order is not None and _is_dense_in(order, tensor) else None


def _is_dense_in(order: Sequence[int], tensor: torch.Tensor) -> bool:
    """Whether the tensor is dense with its dimensions in this order, the one with the largest stride first."""
    sizes, strides = expressions(tensor.size()), expressions(tensor.stride())
    expected: Any = 1
    for dim in reversed(order):
        if sizes[dim] == 1:
            continue
        if strides[dim] != expected:
            return False
        expected = expected * (max(sizes[dim], 1) if isinstance(sizes[dim], int) else sizes[dim])
    return True


def closed(value: torch.Tensor) -> torch.Tensor | None:
    """A new fake tensor like ``value``, whose dimensions lie in the same order, without gaps. None if ``value`` has no
    gaps, or overlaps."""
    order = _from_the_outermost(value)
    if order is None or is_dense(value) or overlaps(value):
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
    """The dimensions, the one with the largest stride first. None if nobody knows the strides."""
    hints = list(map(_hint, value.stride()))
    return None if None in hints else sorted(range(value.dim()), key=lambda dim: -hints[dim])


def _hint(number: int | torch.SymInt) -> Any:
    return number.node.hint if isinstance(number, torch.SymInt) else number


def laid_out_as(graph: fx.Graph, node: fx.Node, wanted: torch.Tensor) -> fx.Node:
    """Returns ``node`` if its dimensions lie in memory as those of ``wanted``, which has its sizes. Otherwise adds a
    copy, where the graph inserts, whose dimensions do. Returns ``node``, too, if ``wanted`` has gaps or overlaps."""
    if _lies_like(node.meta["val"], wanted) or (order := memory_order(wanted)) is None:
        return node
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


def makes_tensors(node: fx.Node) -> bool:
    """Whether the results of a node are new tensors."""
    return is_operator(node) and not is_view(node.target) and not node.target._schema.is_mutable
