# SPDX-License-Identifier: Apache-2.0
"""Makes results keep the strides that they have in eager mode, whatever operators the passes put in.

    y = npu_transpose_batchmatmul(x, w)              y = npu_transpose_batchmatmul(x, w)
    return y                                   ->    p = permute(y, [1, 0, 2])
                                                     c = clone(p, memory_format=torch.contiguous_format)
                                                     q = permute(c, [1, 0, 2])
                                                     return q

The graph passes remove the copies that are not needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from npugraph.fx.values import evaluate, expressions, origin_of

aten = torch.ops.aten


def results(graph: fx.Graph) -> list[Any]:
    """The values that the graph returns, in order. None for a value that is no tensor with strides."""
    return [_strided(node) for node in _returned(graph)]


def keep_strides(graph: fx.Graph, before: list[Any]) -> None:
    """Restores the strides of results in place. ``before`` are the graph's ``results`` before the passes. A result
    whose strides had gaps or overlaps stays as it is."""
    returned = _returned(graph)
    if len(returned) != len(before):
        return
    for node, wanted in zip(returned, before, strict=True):
        value = _strided(node)
        if value is None or wanted is None or expressions(value.shape) != expressions(wanted.shape):
            continue
        if _lies_like(value, wanted) or (order := order_of(wanted)) is None:
            continue
        _give_order(graph, node, order)


def _returned(graph: fx.Graph) -> list[fx.Node]:
    return [] if (output := graph.output_node()) is None else list(_leaves(output.args))


def _leaves(args: Any) -> Any:
    if isinstance(args, (list, tuple)):
        for one in args:
            yield from _leaves(one)
    elif isinstance(args, fx.Node):
        yield args


def _strided(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) and value.layout is torch.strided else None


def _lies_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors of equal sizes have equal strides where strides matter."""
    strides = zip(expressions(one.shape), expressions(one.stride()), expressions(other.stride()), strict=True)
    return all(size == 1 or mine == theirs for size, mine, theirs in strides)


def order_of(value: torch.Tensor) -> list[int] | None:
    """Dimensions from the outermost in memory to the innermost. None if the tensor has gaps or overlaps. Makes no
    guards."""
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
    """Whether elements of a tensor may share memory. Makes no guards."""
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


def _give_order(graph: fx.Graph, node: fx.Node, order: list[int]) -> None:
    output = graph.output_node()
    back = [order.index(dim) for dim in range(len(order))]
    calls = (
        (aten.permute.default, (order,), {}),
        (aten.clone.default, (), {"memory_format": torch.contiguous_format}),
        (aten.permute.default, (back,), {}),
    )
    made = node
    with graph.inserting_before(output):
        for target, args, kwargs in calls:
            made = graph.call_function(target, (made, *args), kwargs)
            made.meta = origin_of(node)
            made.meta["val"] = evaluate(made)
    output.replace_input_with(node, made)
