# SPDX-License-Identifier: Apache-2.0
"""Unwraps the ``control_deps`` calls by which AOTAutograd orders waits and records of streams.

control_deps((x, w), wait_stream, x); x1 = getitem(_, 1)    ->    streams.wait_stream(1, 0)
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx


def unwrap_control_deps(gm: fx.GraphModule) -> None:
    """Replaces each call by the operators in it, in their order, in place. Values that it passes through become the
    values that were passed in."""
    found = [node for node in gm.graph.nodes if _is_control_deps(node.target)]
    for node in found:
        node.args = ((), *node.args[1:])  # the order of the graph says the same
    for node in found:
        _, part, *args = node.args
        inner = getattr(gm, part.target).graph
        given = dict(zip(inner.find_nodes(op="placeholder"), args, strict=True))
        with gm.graph.inserting_before(node):
            results = gm.graph.graph_copy(inner, given)
        _replace(node, results)
        if not part.users:
            gm.graph.erase_node(part)


def _is_control_deps(target: Any) -> bool:
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name() == "control_deps"


def _replace(node: fx.Node, results: Any) -> None:
    for item in list(node.users):
        if isinstance(results, (list, tuple)) and item.target is operator.getitem:
            item.replace_all_uses_with(results[item.args[1]])
            node.graph.erase_node(item)
    node.graph.erase_node(node)
