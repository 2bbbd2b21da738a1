# SPDX-License-Identifier: Apache-2.0
"""FX -> FX before import: what torch itself knows how to undo."""

from __future__ import annotations

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2


def prepare(gm: fx.GraphModule) -> fx.GraphModule:
    """Turns functionalised custom operators back into themselves, cloning only what they truly must not write. In place."""
    targets = {node.target for node in gm.graph.nodes}
    if auto_functionalized in targets or auto_functionalized_v2 in targets:
        _undo_auto_functionalized(gm)
    return gm


def _undo_auto_functionalized(gm: fx.GraphModule) -> None:
    from torch._guards import detect_fake_mode
    from torch._inductor.fx_passes.post_grad import decompose_auto_functionalized
    from torch._inductor.fx_passes.reinplace import canonicalize_view_scatter_ops, reinplace_inplaceable_ops_core
    from torch._inductor.fx_passes.reinplace import decompose_generalized_scatter
    from torch._inductor.virtualized import V

    values = [node.meta.get("val") for node in gm.graph.nodes]
    fake_mode = detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    with V.set_fake_mode(fake_mode):
        canonicalize_view_scatter_ops(gm.graph)
        reinplace_inplaceable_ops_core(gm.graph)
        decompose_generalized_scatter(gm.graph)
        decompose_auto_functionalized(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.recompile()
