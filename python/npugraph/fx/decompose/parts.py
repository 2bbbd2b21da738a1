# SPDX-License-Identifier: Apache-2.0
"""A node of a graph -> the operators that a function calls for the node's arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from npugraph.fx.nodes import evaluate_view, is_view_of
from npugraph.fx.values import attribute, is_strided, laid_out_as, origin_of, takes_any_strides

Parts = Callable[..., Any]  # takes the arguments of an operator


def put_parts(gm: fx.GraphModule, node: fx.Node, function: Parts) -> list[fx.Node]:
    """Replaces a node by the operators that ``function`` calls for the node's arguments, and returns these. Arguments
    that are graphs are passed as modules."""
    modules = {n: value for n in node.all_input_nodes if isinstance(value := _module(gm, n), fx.GraphModule)}
    inputs = [n for n in node.all_input_nodes if n not in modules]
    with torch.no_grad(), fake_mode_of(inputs):
        return _put(gm, node, inputs, _trace(node, inputs, modules, function))


def _put(gm: fx.GraphModule, node: fx.Node, inputs: Sequence[fx.Node], parts: fx.GraphModule) -> list[fx.Node]:
    given = dict(zip(parts.graph.find_nodes(op="placeholder"), inputs, strict=True))
    for constant in parts.graph.find_nodes(op="get_attr"):
        name = f"{node.name}_{constant.target}"
        gm.register_buffer(name, getattr(parts, constant.target))
        constant.target = name
    with gm.graph.inserting_before(node):
        results = gm.graph.graph_copy(parts.graph, given)
    made = [part for part in dict.fromkeys(given.values()) if part not in inputs]
    for part in made:
        part.meta |= origin_of(node)
    _replace(gm.graph, node, results)
    return made


def fake_mode_of(inputs: Sequence[fx.Node]) -> Any:
    """The mode of the fake tensors among the values of nodes. Raises ``StopIteration`` if there are none."""
    return next(value.fake_mode for node in inputs if isinstance(value := node.meta["val"], FakeTensor))


def _module(gm: fx.GraphModule, node: fx.Node) -> Any:
    return attribute(gm, node.target) if node.op == "get_attr" else None


def _trace(
    node: fx.Node, inputs: Sequence[fx.Node], modules: Mapping[fx.Node, Any], function: Callable[..., Any]
) -> fx.GraphModule:
    """Traces what ``function`` calls for a node's arguments, as a graph of ``inputs``."""

    def call(*values: Any) -> Any:
        known = dict(zip(inputs, values, strict=True)) | modules
        args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
        return function(*args, **kwargs)

    return make_fx(call)(*(input.meta["val"] for input in inputs))


def _replace(graph: fx.Graph, node: fx.Node, results: Any) -> None:
    """Replaces ``node`` by ``results``: a node, None or, if items of ``node`` are used, a list of these or of such
    lists."""
    if isinstance(results, fx.Node):
        results = _as_promised(graph, node, results)
        views = [user for user in node.users if is_view_of(user, node)]
        node.replace_all_uses_with(results)
        for view in views:
            evaluate_view(view)
    elif results is None:
        for user in list(node.users):
            user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), lambda n: None if n is node else n)
    else:
        for item in list(node.users):
            if item.target is not operator.getitem:
                raise RuntimeError(f"{node.format_node()} is used as a whole by {item.format_node()}")
            _replace(graph, item, results[item.args[1]])
    graph.erase_node(node)


def _as_promised(graph: fx.Graph, node: fx.Node, result: fx.Node) -> fx.Node:
    """The result that replaces ``node``, with its strides if these are seen."""
    wanted, value = node.meta["val"], result.meta["val"]
    if not is_strided(wanted) or not isinstance(value, torch.Tensor) or all(map(takes_any_strides, node.users)):
        return result
    with graph.inserting_before(node):
        return laid_out_as(graph, result, wanted)
