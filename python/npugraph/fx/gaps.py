# SPDX-License-Identifier: Apache-2.0
"""Gives back the room of gaps. New values of a written tensor have its strides, which a graph needs only while it is
made, to tell whether ``contiguous()`` copies:

    y = x.mul(2)     # x has strides (256, 1) and sizes (8, 3), y has strides (3, 1) from here on
    x.copy_(y)
"""

from __future__ import annotations

import torch
from torch import fx

from npugraph.fx.schema import is_view
from npugraph.fx.strides import closed, is_operator, makes_tensors, takes_any_strides
from npugraph.fx.values import expressions
from npugraph.fx.views import evaluate_view, is_view_of


def close_gaps(graph: fx.Graph) -> None:
    """Gives new values of memory that has gaps, in ``meta["val"]``, strides without gaps, unless a result or
    ``as_strided`` shows these. Results of an operator that makes gaps itself, as ``slice_scatter`` does, and new values
    of such results keep them. Makes no guards."""
    closing: set[fx.Node] = set()
    for node in graph.nodes:
        if not _may_close(node, closing):
            continue
        value = closed(node.meta["val"])
        if value is not None and all(map(takes_any_strides, node.users)):
            node.meta["val"] = value
            closing.add(node)
            for user in node.users:
                if is_view_of(user, node):
                    evaluate_view(user)


def _may_close(node: fx.Node, closing: set[fx.Node]) -> bool:
    """Whether a node has new values of an input, of a view, or of values that were closed."""
    if not makes_tensors(node) or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    written, value = node.args[0], node.meta.get("val")
    is_view_or_input = written.op == "placeholder" or (is_operator(written) and is_view(written.target))
    if not is_view_or_input and written not in closing:
        return False
    before = written.meta.get("val")
    tensors = isinstance(value, torch.Tensor) and isinstance(before, torch.Tensor)
    if not tensors or value.layout is not torch.strided or before.layout is not torch.strided:
        return False
    return written in closing or expressions(value.stride()) == expressions(before.stride())
