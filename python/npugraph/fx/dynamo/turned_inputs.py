# SPDX-License-Identifier: Apache-2.0
"""Inputs that a graph of Dynamo writes and then turns: ``x.mul_(2).t_()``. AOTAutograd copies the new values into the
input as it was before, or to the start of its storage."""

from __future__ import annotations

from torch import fx

_RESIZES = {"as_strided_", "resize_", "resize_as_", "squeeze_", "unsqueeze_"}
_TURNS = {"swapaxes_", "swapdims_", "t_", "transpose_", *_RESIZES}


def written_and_turned(graph: fx.Graph) -> fx.Node | None:
    """The first node that changes sizes or strides of an input which the graph writes before, or None. Dynamo ends its
    graph where this is done to an input that was not written."""
    return next((node for node in graph.nodes if _method(node) in _TURNS and _written(node).op == "placeholder"), None)


def _written(node: fx.Node) -> fx.Node:
    """The tensor that methods write, each the result of the one before."""
    while _method(node).endswith("_"):
        node = node.args[0]
    return node


def _method(node: fx.Node) -> str:
    return node.target if node.op == "call_method" else ""
