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
    hints = [stride.node.hint if isinstance(stride, torch.SymInt) else stride for stride in value.stride()]
    if any(hint is None for hint in hints):
        return None
    order = sorted(range(value.dim()), key=lambda dim: -hints[dim])
    step: Any = 1
    for dim in reversed(order):
        if expressions([value.stride(dim)]) != expressions([step]):
            return None
        step = step * value.shape[dim]
    return order


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
