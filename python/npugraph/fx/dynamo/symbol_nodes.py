# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes -> nodes of a graph whose placeholders define the symbols."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from npugraph.fx.dynamo.memory_state import NotRecorded

Symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)


class SymbolNodes:
    """Makes the nodes of symbolic scalars from the nodes of their symbols. Each expression gets one node."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._tracer = fx.proxy.GraphAppendingTracer(graph)
        self._made: dict[sympy.Basic, fx.Node] = {}
        self._values: dict[fx.Node, Any] = {}

    def bind(self, value: Any, node: fx.Node) -> None:
        """Makes ``node`` the node that defines ``value``."""
        self._made.setdefault(value.node.expr, node)
        self._values[node] = value

    def __call__(self, value: Any) -> Any:
        """The node of ``value``, or its number if that is known. Raises ``NotRecorded`` if one of its symbols has no
        node."""
        expr = value.node.expr
        known = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None
        if known is not None:
            return known
        if expr not in self._made:
            self._made[expr] = self._make(expr)
        return self._made[expr]

    def _make(self, expr: sympy.Basic) -> fx.Node:
        missing = [symbol for symbol in expr.free_symbols if symbol not in self._made]
        if missing:
            raise NotRecorded(f"no input defines the symbol {missing[0]}")
        last = next(iter(reversed(self._graph.nodes)))
        proxies = {symbol: fx.Proxy(self._made[symbol], self._tracer) for symbol in expr.free_symbols}
        made = sympy_interp(PythonReferenceAnalysis, proxies, expr)
        node = last.next
        while node.op != "root":
            args = fx.map_arg(node.args, lambda arg: self._values[arg])
            self._values[node] = node.meta["val"] = node.target(*args)
            node = node.next
        return made.node
