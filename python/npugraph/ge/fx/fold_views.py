# SPDX-License-Identifier: Apache-2.0
"""Consecutive views become one, so that each is one ``Reshape`` or ``Transpose``:

    y = permute(x, [1, 0, 2]); z = transpose(y, 1, 2)     ->    z = permute(x, [1, 2, 0])
    y = view(x, [4, 2, 3]); z = view(y, [8, 3])           ->    z = reshape(x, [8, 3])

A transpose that only moves dimensions of size 1 is a reshape, too."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from npugraph.fx.schema import arguments_by_name
from npugraph.ge.converters.values import dimension
from npugraph.ge.fx.scopes import keeps_views
from npugraph.ge.fx.values import constant

aten = torch.ops.aten

_RESHAPES = {aten.view.default: "size", aten._unsafe_view.default: "size", aten.reshape.default: "shape"}
_TRANSPOSES = (aten.permute.default, aten.t.default, aten.transpose.int)
_QUANTISED = "npu::npu_weight_quant_batchmatmul"  # which looks for the transposes of its weights


def fold_views(graph: fx.Graph) -> None:
    """Folds views, in place. Those in scopes that are not of super kernels alone stay as they are, and so do all of a
    graph with a product of quantised weights."""
    if any(isinstance(node.target, torch._ops.OpOverload) and node.target.name() == _QUANTISED for node in graph.nodes):
        return
    for node in list(graph.nodes):
        while (folded := _folded(node)) is not None:
            folded.meta = dict(node.meta)
            node.replace_all_uses_with(folded)
            _erase_unread(node)
            node = folded


def _folded(node: fx.Node) -> fx.Node | None:
    """The node in place of a view of a view; None for another one."""
    if not _is_foldable(node) or not _is_foldable(source := _source(node)):
        return None
    base: Any = _source(source)
    with node.graph.inserting_before(node):
        if node.target in _TRANSPOSES and source.target in _TRANSPOSES:
            inner = _order(source)
            return node.graph.call_function(aten.permute.default, (base, [inner[dim] for dim in _order(node)]))
        sizes = _sizes(node)
        if sizes is None or not (_keeps_order(node) and _keeps_order(source)):
            return None
        return node.graph.call_function(aten.reshape.default, (base, sizes))


def _is_foldable(node: Any) -> bool:
    is_view = isinstance(node, fx.Node) and (node.target in _RESHAPES or node.target in _TRANSPOSES)
    return is_view and not keeps_views(node)


def _source(node: fx.Node) -> Any:
    return arguments_by_name(node.target, node.args, node.kwargs)["self"]


def _order(node: fx.Node) -> list[int]:
    """The dimensions of its source, in the order of the result."""
    rank = _source(node).meta["val"].dim()
    given = arguments_by_name(node.target, node.args, node.kwargs)
    if node.target is aten.permute.default:
        return [dimension(dim, rank) for dim in given["dims"]]
    order = list(range(rank))
    if node.target is aten.t.default:
        return order[::-1]
    if rank:
        a, b = dimension(given["dim0"], rank), dimension(given["dim1"], rank)
        order[a], order[b] = order[b], order[a]
    return order


def _keeps_order(node: fx.Node) -> bool:
    """Whether the elements of a view are in the order of its source."""
    if node.target in _RESHAPES:
        return True
    sizes = _source(node).meta["val"].shape
    moved = [dim for dim in _order(node) if constant(sizes[dim]) != 1]
    return moved == sorted(moved)


def _sizes(node: fx.Node) -> Any:
    """The sizes of a view as an argument; None if they are no argument of it and not known."""
    if node.target in _RESHAPES:
        return arguments_by_name(node.target, node.args, node.kwargs)[_RESHAPES[node.target]]
    sizes = [constant(size) for size in node.meta["val"].shape]
    return None if None in sizes else sizes


def _erase_unread(node: fx.Node) -> None:
    while not node.users and _is_foldable(node):
        source = _source(node)
        node.graph.erase_node(node)
        node = source
