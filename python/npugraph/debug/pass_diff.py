# SPDX-License-Identifier: Apache-2.0
"""Tables of the nodes that a pass removed and added."""

from __future__ import annotations

import torch
from torch import fx

Nodes = dict[str, str]  # name to operator


def nodes_of(graph: fx.Graph) -> Nodes:
    return {node.name: _operator(node) for node in graph.nodes if node.op not in ("placeholder", "output")}


def _operator(node: fx.Node) -> str:
    if isinstance(node.target, (str, torch._ops.OperatorBase)):
        return str(node.target)
    return getattr(node.target, "__name__", str(node.target))


def table(before: Nodes, after: Nodes) -> str:
    """A line for each operator that has fewer or more nodes, with the names of these nodes. Empty if there are none."""
    rows = [
        *_rows("removed", {name: op for name, op in before.items() if after.get(name) != op}),
        *_rows("added", {name: op for name, op in after.items() if before.get(name) != op}),
    ]
    if not rows:
        return ""
    width = max(len(op) for _, op, _ in rows)
    return "\n".join(f"  {what:<7}  {len(names):>4}  {op:<{width}}  {', '.join(names)}" for what, op, names in rows)


def _rows(what: str, nodes: Nodes) -> list[tuple[str, str, list[str]]]:
    by_operator: dict[str, list[str]] = {}
    for name, op in nodes.items():
        by_operator.setdefault(op, []).append(name)
    return [(what, op, names) for op, names in by_operator.items()]
