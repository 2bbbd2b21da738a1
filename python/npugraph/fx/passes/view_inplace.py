# SPDX-License-Identifier: Apache-2.0
"""Updates of an input in another shape -> in-place updates of a view of it.

v = view(cache, [4, 64]); u = npu.scatter_update(v, i, x, 1)    ->    v = view(cache, [4, 64])
w = view(u, [4, 8, 8]);   copy_(cache, w)                             npu.scatter_update_(v, i, x, 1)
"""

from __future__ import annotations

import torch
from torch import fx

aten = torch.ops.aten

# The functional operators, by name, and their in-place forms.
_FORMS = {
    "npu::scatter_update": "scatter_update_",
    "npu::npu_scatter_nd_update": "npu_scatter_nd_update_",
    "npu::npu_quant_scatter": "npu_quant_scatter_",
}


def recover_view_inplace(graph: fx.Graph) -> None:
    """Rewrites the graph in place. The view must have one reader, the input must have two (the view and the ``copy_``),
    and the view back must have the shape of the input."""
    for copy in graph.find_nodes(op="call_function", target=aten.copy_.default):
        found = _chain(copy)
        if found is None:
            continue
        update, view_back = found
        with graph.inserting_before(update):
            form = getattr(torch.ops.npu, _FORMS[update.target._schema.name]).default
            written = graph.call_function(form, update.args, update.kwargs)
        written.meta = dict(update.meta)
        for node in (copy, view_back, update):
            graph.erase_node(node)
        graph.owning_module.recompile()


def _chain(copy: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    cache, view_back = copy.args[:2]
    if copy.users or not _is_view(view_back) or len(view_back.users) != 1 or cache.op != "placeholder":
        return None
    update = view_back.args[0]
    target = update.target if isinstance(update, fx.Node) else None
    if not isinstance(target, torch._ops.OpOverload) or target._schema.name not in _FORMS or len(update.users) != 1:
        return None
    view = update.args[0]
    if not _is_view(view) or view.args[0] is not cache or len(view.users) != 1 or len(cache.users) != 2:
        return None
    same = cache.meta["val"].shape == view_back.meta["val"].shape and cache not in update.all_input_nodes
    return (update, view_back) if same else None


def _is_view(node: object) -> bool:
    return isinstance(node, fx.Node) and node.target in (aten.view.default, aten.reshape.default)
