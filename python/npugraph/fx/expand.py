# SPDX-License-Identifier: Apache-2.0
"""Operators that are made of ATen operators -> these, so that the compiler sees and fuses them.

    y, rstd = npu.npu_rms_norm(x, gamma)    ->    pow, mean, add, rsqrt, mul, mul

What they are made of is said once, by their kernel (src/torch/npu_ops), which is traced here. Operators that read
values of their arguments, or write arguments, stay whole.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from npugraph import _C
from npugraph.fx.schema import is_of_ascend
from npugraph.fx.values import origin_of
from npugraph.python_operators import kernels


def expand(gm: fx.GraphModule) -> fx.GraphModule:
    """Puts the parts of composed operators in their place. In place."""
    for node in list(gm.graph.nodes):
        if _is_composed(node):
            _put_parts(gm, node)
    return gm


def _is_composed(node: fx.Node) -> bool:
    target = node.target
    if getattr(target, "namespace", None) == "npu_define":  # made of torch's collectives
        return True
    if not is_of_ascend(target):
        return False
    whole_with = _composed().get(target.name())
    if whole_with is None or target._schema.is_mutable:
        return False
    names = (argument.name for argument in target._schema.arguments)
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return all(given.get(name) is None for name in whole_with)


@functools.cache
def _composed() -> dict[str, list[str]]:
    """Composed operators, and the arguments with which calls of these stay whole."""
    return {row.name: row.whole_with for row in _C.device.operators() if row.is_composed}


def _put_parts(gm: fx.GraphModule, node: fx.Node) -> None:
    parts = _trace(node)
    given = dict(zip(_placeholders(parts), node.all_input_nodes, strict=True))
    for constant in parts.graph.find_nodes(op="get_attr"):
        name = f"{node.name}_{constant.target}"
        gm.register_buffer(name, getattr(parts, constant.target))
        constant.target = name
    with gm.graph.inserting_before(node):
        results = gm.graph.graph_copy(parts.graph, given)
    made = set(given.values()) - set(node.all_input_nodes)
    for part in made:
        part.meta |= origin_of(node)
    _replace(gm.graph, node, results)


def _trace(node: fx.Node) -> fx.GraphModule:
    """What the kernel of a node's operator calls, as a graph of the nodes that the node reads."""
    inputs = node.all_input_nodes

    def call(*values: Any) -> Any:
        known = dict(zip(inputs, values, strict=True))
        args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
        if kernel := kernels.get(node.target.name()):
            return kernel(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # modes for functions are given the operator, without the kernel's key
            return node.target._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)

    values = [input.meta["val"] for input in inputs]
    fake = next(value for value in values if isinstance(value, FakeTensor))
    with torch.no_grad(), fake.fake_mode:
        return make_fx(call)(*values)


def _placeholders(gm: fx.GraphModule) -> list[fx.Node]:
    return gm.graph.find_nodes(op="placeholder")


def _replace(graph: fx.Graph, node: fx.Node, results: Any) -> None:
    """``results``: a node, or, where items of ``node`` are used, a list of nodes or such lists."""
    if isinstance(results, fx.Node):
        node.replace_all_uses_with(results)
    else:
        for item in list(node.users):
            if item.target is not operator.getitem:
                raise RuntimeError(f"{node.format_node()} is used as a whole by {item.format_node()}")
            _replace(graph, item, results[item.args[1]])
    graph.erase_node(node)
