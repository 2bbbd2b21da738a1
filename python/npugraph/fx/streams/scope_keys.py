# SPDX-License-Identifier: Apache-2.0
"""Reads the keys of ``scope_enter`` that name no streams and limits: super kernels become marks of their own.

scope_enter(["_super_kernel_scope"], ["block"])        scope_enter(...);  super_kernel_scope_begin("block", "")
y = aten.add(x, 1)                                ->   y = aten.add(x, 1)
scope_exit()                                           super_kernel_scope_end("block");  scope_exit()
"""

from __future__ import annotations

import torch
from torch import fx

from npugraph.fx.schema import core_name
from npugraph.fx.streams.scopes import ScopeError, at
from npugraph.fx.streams.stream_marks import LIMITS, STREAM, has_marks, marks

SCOPE, OPTIONS = "_super_kernel_scope", "_super_kernel_options"
_KEYS = (*STREAM, *LIMITS, SCOPE, OPTIONS)


def settle_keys(gm: fx.GraphModule) -> list[str]:
    """Rewrites a graph whose scopes pair, in place. Must be called once for each graph. Returns warnings about keys
    that nothing reads. Raises ``ScopeError`` for options that super kernels do not have."""
    warnings: list[str] = []
    if not has_marks(gm.graph):
        return warnings
    open_: list[str | None] = []
    for node in list(gm.graph.nodes):
        name = marks().get(node.target) if node.op == "call_function" else None
        if name == "scope_enter":
            scope = _scope_of(node)
            warnings += [_unknown(node, key) for key in scope if key not in _KEYS]
            open_.append(_begin(node, scope))
        elif name == "scope_exit" and (label := open_.pop()) is not None:
            with gm.graph.inserting_before(node):
                _mark(node, "super_kernel_scope_end", label)
    return warnings


def _scope_of(node: fx.Node) -> dict[str, str]:
    given = dict(zip(("keys", "values"), node.args, strict=False)) | node.kwargs
    return dict(zip(given["keys"], given["values"], strict=True))


def _unknown(node: fx.Node, key: str) -> str:
    return f"{core_name(node.target)}{at(node)}: nothing reads the key {key!r}; keys are {', '.join(_KEYS)}"


def _begin(node: fx.Node, scope: dict[str, str]) -> str | None:
    """Adds the mark of a super kernel scope, if the keys name one, and returns the name of the scope."""
    if SCOPE not in scope:
        return None
    from npugraph.scope import check_super_kernel_options  # defines the marks; other graphs do without them

    options = scope.get(OPTIONS, "")
    try:
        check_super_kernel_options(f"{core_name(node.target)}{at(node)}: {OPTIONS}", options)
    except RuntimeError as error:
        raise ScopeError(str(error), first_useful_frame=None) from None
    with node.graph.inserting_after(node):
        _mark(node, "super_kernel_scope_begin", scope[SCOPE], options)
    return scope[SCOPE]


def _mark(like: fx.Node, name: str, *args: str) -> None:
    mark = like.graph.call_function(getattr(torch.ops.npugraph_ex, name).default, args)
    mark.meta |= {"val": None, "stack_trace": like.meta.get("stack_trace")}
