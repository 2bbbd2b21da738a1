# SPDX-License-Identifier: Apache-2.0
"""Views among the nodes of a graph: what they view, and how they follow when that changes."""

from __future__ import annotations

import operator

import torch
from torch import fx

from npugraph.fx.calls import add_call
from npugraph.fx.schema import is_view
from npugraph.fx.values import evaluate


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
