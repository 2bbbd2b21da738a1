# SPDX-License-Identifier: Apache-2.0
"""torch's higher-order operators for Triton kernels -> the operators of kernels (``fx/triton_kernels.py``).

    r = triton_kernel_wrapper_functional(kernel_idx=0, ...,           ->    r = auto_functionalized(
        kwargs={"x": x, "out": y, "n": 8}, tensors_to_clone=["out"])            triton_kernels.k, x=x, out=y, n=8, ...)
    z = r["out"]                                                            z = r[1]

The higher-order operators take their tensors in a dictionary and the kernel as a number. ``auto_functionalized`` is
torch's functional form of any operator that writes, which ``working_copies`` makes write in place.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized

from npugraph.fx.triton_kernels import GRID, Launch, launch_of, type_of

_FUNCTIONAL, _MUTATION = (f"triton_kernel_wrapper_{form}" for form in ("functional", "mutation"))


def name_kernels(graph: fx.Graph) -> None:
    """Rewrites the graph in place. Kernels that Triton compiles stay, and so do descriptors of memory for GPUs."""
    for node in list(graph.nodes):
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        if node.target.name() in (_FUNCTIONAL, _MUTATION) and (launch := _launch(node)) is not None:
            with graph.inserting_before(node):
                _replace(graph, node, launch)


def _launch(node: fx.Node) -> Launch | None:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
    from triton.runtime.interpreter import InterpretedFunction

    given = node.kwargs
    kernel = kernel_side_table.get_kernel(given["kernel_idx"])
    if not isinstance(kernel, InterpretedFunction) or given.get("tma_descriptor_metadata"):
        return None
    named = given["kwargs"] | kernel_side_table.get_constant_args(given["constant_args_idx"])
    written = given.get("tensors_to_clone")  # the functional form copies each of them, also one that is given twice
    identity = id if written is None else _nothing_is_the_same
    return launch_of(kernel, named, _type_of_argument, identity=identity, written=written)


def _nothing_is_the_same(value: Any) -> object:
    return object()


def _type_of_argument(value: Any) -> str | None:
    if isinstance(value, fx.Node):
        value = value.meta["example_value" if "example_value" in value.meta else "val"]
    return type_of(value)


def _replace(graph: fx.Graph, node: fx.Node, launch: Launch) -> None:
    named, grid = node.kwargs["kwargs"], list(node.kwargs["grid"][0])
    arguments = {name: named[name] for name, _ in launch.operands} | {GRID: grid}
    if node.target.name() == _MUTATION:
        call = graph.call_function(launch.operator(), tuple(arguments.values()))
    else:
        call = graph.call_function(auto_functionalized, (launch.operator(),), arguments)
        written = [name for name, _ in launch.operands if name in launch.written]
        for item in list(node.users):
            part = graph.call_function(operator.getitem, (call, 1 + written.index(item.args[1])))
            part.meta = dict(item.meta)
            item.replace_all_uses_with(part)
            graph.erase_node(item)
        call.meta["val"] = (None, *(named[name].meta["val"] for name in written))
    call.meta = {key: value for key, value in node.meta.items() if key != "val"} | call.meta
    graph.erase_node(node)
