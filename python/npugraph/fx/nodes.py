# SPDX-License-Identifier: Apache-2.0
"""Nodes of FX graphs: adds calls of operators, expresses the layout of a tensor as arguments of such calls, and says
which nodes are views of which, and how they follow when that changes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch import fx

from npugraph.fx.schema import is_view
from npugraph.fx.values import evaluate

aten = torch.ops.aten


def add_call(
    graph: fx.Graph, like: fx.Node, function: Callable[..., object], *args: object, **kwargs: object
) -> fx.Node:
    """Adds a call with the metadata of ``like`` and evaluates it. The new node defines no symbols."""
    made = graph.call_function(function, args, kwargs)
    made.meta = {**like.meta, "val": evaluate(made)}
    made.meta.pop("unbacked_bindings", None)
    return made


def geometry(graph: fx.Graph, node: fx.Node) -> tuple[list[object], list[object], object]:
    """Returns sizes, strides and storage offset of a node's tensor. A symbolic one is a node that computes it."""

    def numbers(query: torch._ops.OpOverload, values: Sequence[int | torch.SymInt]) -> list[object]:
        return [
            add_call(graph, node, query, node, i) if isinstance(v, torch.SymInt) else v for i, v in enumerate(values)
        ]

    value = node.meta["val"]
    offset = value.storage_offset()
    if isinstance(offset, torch.SymInt):
        offset = add_call(graph, node, aten.sym_storage_offset.default, node)
    return numbers(aten.sym_size.int, value.shape), numbers(aten.sym_stride.int, value.stride()), offset


def storage_elements(graph: fx.Graph, node: fx.Node) -> object:
    """Returns the number of elements of the storage of a node's tensor. If it is symbolic, returns ``end_of``."""
    value = node.meta["val"]
    bytes_ = value.untyped_storage().nbytes()
    return end_of(graph, node) if isinstance(bytes_, torch.SymInt) else bytes_ // value.element_size()


def end_of(graph: fx.Graph, node: fx.Node) -> object:
    """Returns the number of elements from the start of the storage up to and including the last element of a node's
    tensor."""

    def compute(function: Callable[..., object], *args: object) -> object:
        if not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        return add_call(graph, node, function, *args)

    sizes, strides, offset = geometry(graph, node)
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last = compute(operator.add, last, compute(operator.mul, compute(operator.sub, size, 1), stride))
    return compute(operator.add, last, 1)


def is_view_node(node: fx.Node) -> bool:
    """Whether a node calls an operator whose results are views, or takes one of these."""
    if node.target is operator.getitem:
        return is_view_node(node.args[0])  # type: ignore[arg-type]
    return isinstance(node.target, torch._ops.OpOverload) and is_view(node.target)


def base_of(node: fx.Node) -> fx.Node:
    """The tensor that a node views; the node itself if it views none."""
    while is_view_node(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def on_other_bases(graph: fx.Graph, node: fx.Node, others: dict[fx.Node, fx.Node]) -> fx.Node:
    """Adds the views that lead from a key of ``others`` to ``node`` again, so that they lead from its value. Returns
    the last one, or ``node`` if none of the keys is behind it. ``others`` gets the views that were added, which later
    calls use, so nodes that share memory still share it then."""
    if node in others or not is_view_node(node):
        return others.get(node, node)
    viewed = on_other_bases(graph, node.args[0], others)
    if viewed is node.args[0]:
        return node
    others[node] = add_call(graph, node, node.target, viewed, *node.args[1:], **node.kwargs)
    return others[node]


def is_view_of(user: fx.Node, node: fx.Node) -> bool:
    """Whether a user of ``node`` is a view of it, or one of the tensors of which it is a list."""
    target = user.target
    if isinstance(target, torch._ops.OpOverload):
        return is_view(target) and user.args[0] is node
    return target is operator.getitem and isinstance(node.meta.get("val"), (list, tuple))


def evaluate_view(view: fx.Node) -> None:
    """Evaluates a view, and the views of it, again. Their values then lie as their base does now."""
    view.meta["val"] = evaluate(view)
    for user in view.users:
        if is_view_of(user, view):
            evaluate_view(user)
