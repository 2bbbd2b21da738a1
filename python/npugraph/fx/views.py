# SPDX-License-Identifier: Apache-2.0
"""Views among the nodes of a graph, whose values follow the tensor that they view."""

from __future__ import annotations

import operator

import torch
from torch import fx

from npugraph.fx.schema import is_view
from npugraph.fx.values import evaluate


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
