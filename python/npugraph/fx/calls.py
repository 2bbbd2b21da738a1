# SPDX-License-Identifier: Apache-2.0
"""Adds calls to FX graphs, evaluates them, and expresses the layout of a tensor as arguments of such calls."""

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
    """Adds a call with the metadata of ``like`` and evaluates it. The new node defines no symbols."""
    made = graph.call_function(function, args, kwargs)
    made.meta = {**like.meta, "val": evaluate(made)}
    made.meta.pop("unbacked_bindings", None)
    return made


def geometry(graph: fx.Graph, node: fx.Node) -> tuple[list[object], list[object], object]:
    """Returns sizes, strides and storage offset of a node's tensor. A symbolic one is a node that computes it."""

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
    """Returns the number of elements of the storage of a node's tensor. If it is symbolic, returns ``end_of``."""
    value = node.meta["val"]
    bytes_ = value.untyped_storage().nbytes()
    return end_of(graph, node) if isinstance(bytes_, torch.SymInt) else bytes_ // value.element_size()


def end_of(graph: fx.Graph, node: fx.Node) -> object:
    """Returns the number of elements from the start of the storage up to and including the last element of a node's
    tensor."""

    def compute(function: Callable[..., object], *args: object) -> object:
        if not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        return add_call(graph, node, function, *args)

    sizes, strides, offset = geometry(graph, node)
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last = compute(operator.add, last, compute(operator.mul, compute(operator.sub, size, 1), stride))
    return compute(operator.add, last, 1)
