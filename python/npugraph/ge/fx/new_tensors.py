# SPDX-License-Identifier: Apache-2.0
"""Calls that make a tensor with the type and device of another one, as calls that need no other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from npugraph.fx.schema import arguments_by_name
from npugraph.fx.values import is_row_major, is_strided

aten = torch.ops.aten

# What the new tensor is filled with.
_OF_SIZES = {aten.new_zeros.default: 0, aten.new_ones.default: 1, aten.new_full.default: None}
_LIKE = {aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.full_like.default: None}


def make_of_sizes(graph: fx.Graph) -> None:
    """Replaces ``new_zeros``, ``zeros_like`` and the like by ``full``, in place, where sizes are known or arguments.
    Nothing then has to be computed before them, and they can be made wherever they are read."""
    for node in list(graph.nodes):
        sizes = _sizes_of(node)
        if sizes is None:
            continue
        fill = _OF_SIZES.get(node.target, _LIKE.get(node.target))
        if fill is None:
            fill = arguments_by_name(node.target, node.args, node.kwargs)["fill_value"]
        value = node.meta["val"]
        with graph.inserting_before(node):
            made = graph.call_function(aten.full.default, (sizes, fill), {"dtype": value.dtype, "device": value.device})
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _sizes_of(node: fx.Node) -> Sequence[Any] | None:
    """The sizes of the tensor as arguments of a call. None for a node that stays as it is."""
    value = node.meta.get("val")
    if not is_strided(value):
        return None
    if node.target in _OF_SIZES:
        return node.args[1]  # type: ignore[return-value]
    is_known = all(isinstance(size, int) for size in value.size()) and is_row_major(value)
    return list(value.size()) if node.target in _LIKE and is_known else None
