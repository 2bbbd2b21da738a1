# SPDX-License-Identifier: Apache-2.0
"""Computes the values of a graph's nodes with torch, one after the other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from npugraph.fx.decompose.collectives import is_collective
from npugraph.fx.schema import may_draw

MISSING = object()  # stands for a value that is not known


def run_nodes(
    gm: fx.GraphModule,
    inputs: Mapping[str, Any],
    visit: Callable[[fx.Node, Any], Any],
    may_run: Callable[[fx.Node], bool],
) -> None:
    """Computes in order the nodes that follow from ``inputs`` (by placeholder) and that ``may_run`` allows. ``visit``
    gets the value of each node, or ``MISSING``, and returns the value to go on with. Inputs are written where the graph
    writes them. The states of random number generators stay."""
    values: dict[fx.Node, Any] = {}
    with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=()):
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                values[node] = inputs.get(node.target, MISSING)
            elif node.op == "get_attr":
                values[node] = getattr(gm, node.target)
            elif node.op == "call_function":
                values[node] = visit(node, _compute(node, values, may_run))


def is_local(node: fx.Node) -> bool:
    """Whether a call does not communicate with other processes."""
    return not is_collective(node.target)


def is_repeatable(node: fx.Node) -> bool:
    """Whether a call may be repeated and then gives the same result."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return not getattr(target, "is_python_task", False)
    name = target._schema.name.split("::")[-1]
    is_uninitialised = name.startswith(("empty", "new_empty"))
    return is_local(node) and not is_uninitialised and not may_draw(target, node.args, node.kwargs)


def _compute(node: fx.Node, values: Mapping[fx.Node, Any], may_run: Callable[[fx.Node], bool]) -> Any:
    if any(values[given] is MISSING for given in node.all_input_nodes):
        return MISSING
    args = fx.map_arg(node.args, values.__getitem__)
    if node.target is operator.getitem or may_run(node):
        return node.target(*args, **fx.map_arg(node.kwargs, values.__getitem__))
    schema = getattr(node.target, "_schema", None)
    return args[0] if schema is not None and schema.is_mutable else MISSING
