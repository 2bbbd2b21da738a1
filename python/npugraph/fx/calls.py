# SPDX-License-Identifier: Apache-2.0
"""New calls in FX graphs, with their values, and the places of tensors as arguments of such calls."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch import fx

from npugraph.fx.values import evaluate

aten = torch.ops.aten


def add_call(
    graph: fx.Graph, like: fx.Node, function: Callable[..., object], *args: object, **kwargs: object
) -> fx.Node:
    """A new node with the origin of ``like``, which defines no symbols."""
    made = graph.call_function(function, args, kwargs)
    made.meta = {**like.meta, "val": evaluate(made)}
    made.meta.pop("unbacked_bindings", None)
    return made


def geometry(graph: fx.Graph, node: fx.Node) -> tuple[list[object], list[object], object]:
    """Sizes, strides and storage offset of a node's tensor: numbers, and nodes where they are symbolic."""

    def numbers(query: torch._ops.OpOverload, values: Sequence[int | torch.SymInt]) -> list[object]:
        return [
            add_call(graph, node, query, node, i) if isinstance(v, torch.SymInt) else v for i, v in enumerate(values)
        ]

    value = node.meta["val"]
    offset = value.storage_offset()
    if isinstance(offset, torch.SymInt):
        offset = add_call(graph, node, aten.sym_storage_offset.default, node)
    return numbers(aten.sym_size.int, value.shape), numbers(aten.sym_stride.int, value.stride()), offset


def storage_elements(graph: fx.Graph, node: fx.Node) -> object:
    """How many elements the storage of a node's tensor has; where that is symbolic, up to the end of the tensor."""
    value = node.meta["val"]
    bytes_ = value.untyped_storage().nbytes()
    return end_of(graph, node) if isinstance(bytes_, torch.SymInt) else bytes_ // value.element_size()


def end_of(graph: fx.Graph, node: fx.Node) -> object:
    """How many elements there are from the start of the storage to the end of a node's tensor."""

    def compute(function: Callable[..., object], *args: object) -> object:
        if not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        return add_call(graph, node, function, *args)

    sizes, strides, offset = geometry(graph, node)
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last = compute(operator.add, last, compute(operator.mul, compute(operator.sub, size, 1), stride))
    return compute(operator.add, last, 1)
