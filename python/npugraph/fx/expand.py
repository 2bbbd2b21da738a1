# SPDX-License-Identifier: Apache-2.0
"""Operators that are made of ATen operators -> these, so that the compiler sees and fuses them.

    y, rstd = npu.npu_rms_norm(x, gamma)    ->    pow, mean, add, rsqrt, mul, mul

What they are made of is said once, by their kernel (src/torch/npu_ops), which is traced here. Operators that read
values of their arguments, or write arguments, stay whole. The same is done with calls of ATen operators that only npu
takes (``npu_kernels``).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from npugraph import _C, npu_kernels
from npugraph.fx.python_node import attribute
from npugraph.fx.schema import is_of_ascend
from npugraph.fx.values import origin_of
from npugraph.python_operators import kernels


def expand(gm: fx.GraphModule) -> fx.GraphModule:
    """Puts the parts of composed operators, and of flex_attention, in their place. In place."""
    if any(map(_is_flex_attention, gm.graph.nodes)):
        from npugraph.fx.flex_attention import expand_flex_attention

        expand_flex_attention(gm)
    for node in list(gm.graph.nodes):
        if _is_composed(node):
            put_parts(gm, node, functools.partial(_run_kernel, node.target))
    return gm


def _is_flex_attention(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name().startswith("flex_attention")


def _is_composed(node: fx.Node) -> bool:
    target = node.target
    if getattr(target, "namespace", None) == "npu_define":  # made of torch's collectives
        return True
    if target in npu_kernels.OPERATORS:
        return npu_kernels.is_made_of_others(target, fx.map_arg(node.args, lambda n: n.meta.get("val")))
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


def put_parts(gm: fx.GraphModule, node: fx.Node, function: Callable[..., Any]) -> None:
    """Puts in the place of a node what ``function`` calls for the node's arguments. Graphs among these are modules."""
    modules = {n: value for n in node.all_input_nodes if isinstance(value := _module(gm, n), fx.GraphModule)}
    inputs = [n for n in node.all_input_nodes if n not in modules]
    parts = _trace(node, inputs, modules, function)
    given = dict(zip(_placeholders(parts), inputs, strict=True))
    for constant in parts.graph.find_nodes(op="get_attr"):
        name = f"{node.name}_{constant.target}"
        gm.register_buffer(name, getattr(parts, constant.target))
        constant.target = name
    with gm.graph.inserting_before(node):
        results = gm.graph.graph_copy(parts.graph, given)
    made = set(given.values()) - set(inputs)
    for part in made:
        part.meta |= origin_of(node)
    _replace(gm.graph, node, results)


def _module(gm: fx.GraphModule, node: fx.Node) -> Any:
    return attribute(gm, node.target) if node.op == "get_attr" else None


def _trace(
    node: fx.Node, inputs: Sequence[fx.Node], modules: Mapping[fx.Node, Any], function: Callable[..., Any]
) -> fx.GraphModule:
    """What ``function`` calls for a node's arguments, as a graph of ``inputs``."""

    def call(*values: Any) -> Any:
        known = dict(zip(inputs, values, strict=True)) | modules
        args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
        return function(*args, **kwargs)

    values = [input.meta["val"] for input in inputs]
    fake = next(value for value in values if isinstance(value, FakeTensor))
    with torch.no_grad(), fake.fake_mode:
        return make_fx(call)(*values)


def _run_kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    if kernel := kernels.get(op.name()):
        return kernel(*args, **kwargs)
    with torch._C.DisableTorchFunction():  # modes for functions are given the operator, without the kernel's key
        if op in npu_kernels.OPERATORS:
            return npu_kernels.call(op, *args, **kwargs)
        return op._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)


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
