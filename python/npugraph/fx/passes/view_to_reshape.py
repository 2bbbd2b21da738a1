# SPDX-License-Identifier: Apache-2.0
"""``aten.view`` -> ``aten.reshape``, which works on any strides that earlier passes left; and back.

y = view(x, [6, 4])    ->    y = reshape(x, [6, 4])
"""

from __future__ import annotations

import torch
from torch import fx

from npugraph.fx.values import evaluate

aten = torch.ops.aten


def view_to_reshape(graph: fx.Graph) -> None:
    """Rewrites the graph in place, after the patterns, which match ``view``."""
    for node in graph.find_nodes(op="call_function", target=aten.view.default):
        node.target = aten.reshape.default


def resolve_reshape(node: fx.Node) -> None:
    """Evaluates a node that was a ``reshape`` and is a ``view`` again. If the strides of its operand allow no view, it
    becomes a view of a copy."""
    source, shape = node.args
    try:
        node.meta["val"] = evaluate(node)
    except (RuntimeError, ValueError):  # from C++, from Python
        with node.graph.inserting_before(node):
            copy = node.graph.call_function(aten.clone.default, (source,), {"memory_format": torch.contiguous_format})
        copy.meta = {**node.meta, "val": evaluate(copy)}
        node.args = (copy, shape)
        node.meta["val"] = evaluate(node)
