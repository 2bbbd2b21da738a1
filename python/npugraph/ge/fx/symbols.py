# SPDX-License-Identifier: Apache-2.0
"""Symbols of a graph as nodes, and sizes as numbers that are made of these."""

from __future__ import annotations

import sympy
import torch
from torch import fx
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from npugraph.fx.nodes import add_call
from npugraph.fx.values import evaluate

aten = torch.ops.aten

# What asks for the sizes of a tensor and for its place in its storage.
QUERIES = {
    aten.sym_size.int,
    aten.sym_stride.int,
    aten.sym_numel.default,
    aten.sym_storage_offset.default,
}


def define_symbols(graph: fx.Graph) -> dict[sympy.Symbol, fx.Node]:
    """Returns for each symbol the first node that has its value. Adds one for a symbol that is only a size."""
    found: dict[sympy.Symbol, fx.Node] = {}
    sizes: dict[sympy.Symbol, tuple[fx.Node, int]] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            found.setdefault(value.node.expr, node)
        for dim, size in enumerate(value.size() if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                sizes.setdefault(size.node.expr, (node, dim))
    behind_inputs = next(node for node in graph.nodes if node.op != "placeholder")
    for symbol, (node, dim) in sizes.items():
        if symbol not in found:
            with graph.inserting_before(behind_inputs if node.op == "placeholder" else node.next):
                found[symbol] = add_call(graph, node, aten.sym_size.int, node, dim)
    return found


def compute_sizes(graph: fx.Graph, symbols: dict[sympy.Symbol, fx.Node]) -> None:
    """Lets sizes of tensors follow from symbols, in place: nothing then needs a tensor for its sizes alone."""
    tracer = fx.proxy.GraphAppendingTracer(graph)
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.target not in QUERIES or not isinstance(value, torch.SymInt) or value.node.expr.is_Symbol:
            continue
        names = value.node.expr.free_symbols
        if not names or not names <= symbols.keys():
            continue
        before = node.prev
        with graph.inserting_before(node):
            proxies = {name: fx.Proxy(symbols[name], tracer) for name in names}
            made = sympy_interp(PythonReferenceAnalysis, proxies, value.node.expr).node
        while (before := before.next) is not node:
            before.meta["val"] = evaluate(before)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
