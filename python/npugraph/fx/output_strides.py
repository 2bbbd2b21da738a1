# SPDX-License-Identifier: Apache-2.0
"""Makes results keep the strides that they have in eager mode, whatever operators the passes put in.

    y = npu_transpose_batchmatmul(x, w)              y = npu_transpose_batchmatmul(x, w)
    return y                                   ->    p = permute(y, [1, 0, 2])
                                                     c = clone(p, memory_format=torch.contiguous_format)
                                                     q = permute(c, [1, 0, 2])
                                                     return q

The graph passes remove the copies that are not needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from npugraph.fx.strides import laid_out_as
from npugraph.fx.values import expressions


def results(graph: fx.Graph) -> list[Any]:
    """The values that the graph returns, in order. None for a value that is no tensor with strides."""
    return [_strided(node) for node in _returned(graph)]


def keep_strides(graph: fx.Graph, before: list[Any]) -> None:
    """Restores the strides of results in place. ``before`` are the graph's ``results`` before the passes. A result
    whose strides had gaps or overlaps stays as it is."""
    returned = _returned(graph)
    if len(returned) != len(before):
        return
    for node, wanted in zip(returned, before, strict=True):
        value = _strided(node)
        if value is None or wanted is None or expressions(value.shape) != expressions(wanted.shape):
            continue
        output = graph.output_node()
        with graph.inserting_before(output):
            output.replace_input_with(node, laid_out_as(graph, node, wanted))


def _returned(graph: fx.Graph) -> list[fx.Node]:
    return [] if (output := graph.output_node()) is None else list(_leaves(output.args))


def _leaves(args: Any) -> Any:
    if isinstance(args, (list, tuple)):
        for one in args:
            yield from _leaves(one)
    elif isinstance(args, fx.Node):
        yield args


def _strided(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) and value.layout is torch.strided else None
