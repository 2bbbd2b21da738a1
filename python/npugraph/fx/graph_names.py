# SPDX-License-Identifier: Apache-2.0
"""What a graph is called after: what the user compiled."""

from __future__ import annotations

import torch
from torch import fx
from torch._dynamo.symbolic_convert import InstructionTranslator

from npugraph.fx.source_lines import is_users, source_line


def name_of(gm: fx.GraphModule) -> str:
    """The class of the module whose method Dynamo is compiling, or the name of the function. Where that is torch's own
    code around a module of torch.nn, and where nothing is being traced: the class of the outermost module, or else the
    function, that the nodes come from."""
    root = _root()
    this = root.f_locals.get("self") if root is not None else None
    if isinstance(this, torch.nn.Module):
        return type(this).__name__
    function = _outermost_function(gm)
    if function is not None and root is not None and is_users(root.f_code.co_filename):
        return function
    return _outermost_module(gm) or function or "graph"


def _root() -> InstructionTranslator | None:
    try:
        return InstructionTranslator.current_tx().output.root_tx
    except AttributeError:  # nothing is being traced
        return None


def _outermost_function(gm: fx.GraphModule) -> str | None:
    lines = (source_line(node, outermost=True) for node in gm.graph.nodes)
    return next((line.rsplit(" in ", 1)[-1] for line in lines if line), None)


def _outermost_module(gm: fx.GraphModule) -> str | None:
    for node in gm.graph.nodes:
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        if modules:
            kind = modules[0][1]
            return kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind.__name__
    return None
