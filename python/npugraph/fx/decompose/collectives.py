# SPDX-License-Identifier: Apache-2.0
"""Rewrites collectives of torch.distributed in graphs (``_c10d_functional``): each is done when its node has run.

In eager mode a collective returns before its result is written. torch finds a pending collective by the storage of its
result. Values of a graph have no storages, so here one node stands for the collective and the wait for it
(npugraph/collectives.py). Lowering waits where the result is first needed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.fx.schema import arguments_by_name

_NAMESPACE = "_c10d_functional"
_WAIT = f"{_NAMESPACE}::wait_tensor"


def finish_collectives(gm: fx.GraphModule, *, of_gradients: bool) -> fx.GraphModule:
    """Replaces collectives by nodes that are done when they have run, and removes the nodes that waited. Joins
    all-reduces of gradients into fewer. In place."""
    found = False
    for node in list(gm.graph.nodes):
        if node._erased or not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != _NAMESPACE:
            continue
        found = True
        if node.target._schema.name != _WAIT:
            _finish(node)
        elif node.args[0].op != "placeholder":
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    if found and of_gradients:
        from npugraph.fx.decompose import buckets

        buckets.bucket_all_reduces(gm)
        buckets.sink_results(gm)
    return gm


def is_collective(target: Any) -> bool:
    """Whether a call communicates with other processes."""
    namespace = getattr(target, "namespace", None)
    if namespace == "npugraph":
        return any(argument.name == "ranks" for argument in target._schema.arguments)
    return namespace in (_NAMESPACE, "_c10d_functional_autograd", "c10d", "npu_define")


def _finish(node: fx.Node) -> None:
    call = _REWRITES.get(node.target._schema.name.removeprefix(f"{_NAMESPACE}::"))
    arguments = arguments_by_name(node.target, node.args, node.kwargs)
    group = arguments.pop("group_name")
    if call is None or not isinstance(group, str):
        node.target = _Finished(node.target)
        return
    from npugraph import collectives

    name, args = call(arguments)
    target = getattr(torch.ops.npugraph, name).default
    graph, value = node.graph, node.meta.get("val")
    with graph.inserting_before(node):
        new = graph.call_function(target, (*args, group, collectives.ranks_of(group)))
        new.meta = dict(node.meta)
        if (written := _written(node)) is not None:
            new.meta["val"] = None
            _replace(node, written)
            return
        if not isinstance(value, (list, tuple)) and target._schema.returns and _gives_list(target):
            new.meta["val"] = [value]
            item = graph.call_function(operator.getitem, (new, 0))
            item.meta = dict(node.meta)
            new, whole = item, new
            whole.name, item.name = node.name, f"{node.name}_0"
    if target._schema.returns:
        node.replace_all_uses_with(new)
    else:  # the result is a token that the graph only waits for
        for user in list(node.users):
            user.replace_all_uses_with(node)
            graph.erase_node(user)
        new.meta["val"] = None
    graph.erase_node(node)


def _written(node: fx.Node) -> Any:
    """The argument that a collective writes and returns: a tensor, or a list of tensors. For transfers, the list has
    None in place of what is sent."""
    arguments = arguments_by_name(node.target, node.args, node.kwargs)
    if kinds := arguments.get("op_list"):
        return [t if kind == "irecv" else None for t, kind in zip(arguments["tensors"], kinds, strict=True)]
    for argument in node.target._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            return arguments[argument.name]
    return None


def _replace(node: fx.Node, written: Any) -> None:
    """Erases the collective ``node``. Its users get the tensors that it has written."""
    for user in list(node.users):
        if user.target is operator.getitem and isinstance(written, (list, tuple)):
            _replace(user, written[user.args[1]])
        elif isinstance(user.target, torch._ops.OpOverload) and user.target._schema.name == _WAIT:
            _replace(user, written)
    if node.users:
        if written is None:  # a token that somebody keeps
            with node.graph.inserting_before(node):
                written = node.graph.call_function(torch.ops.aten.empty.memory_format, ([0],))
                written.meta = dict(node.meta)
        node.replace_all_uses_with(written)
    node.graph.erase_node(node)


def _transfer(a: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    calls = list(zip(a["op_list"], a["tensors"], a["peer_list"], a["tag_list"], strict=True))
    calls.sort(key=lambda call: call[0] != "irecv")
    received = [call[1] for call in calls if call[0] == "irecv"]
    sent = [call[1] for call in calls if call[0] != "irecv"]
    return "transfer", (received, sent, [call[2] for call in calls], [call[3] for call in calls])


def _gives_list(target: torch._ops.OpOverload) -> bool:
    return isinstance(target._schema.returns[0].type, torch.ListType)


_Rewrite = Callable[[dict[str, Any]], tuple[str, tuple[Any, ...]]]

# By collective: the name of our operator, and its arguments in front of those of the group.
_REWRITES: dict[str, _Rewrite] = {
    "all_reduce": lambda a: ("all_reduce", ([a["input"]], a["reduce_op"])),
    "all_reduce_coalesced": lambda a: ("all_reduce", (a["inputs"], a["reduce_op"])),
    "all_gather_into_tensor": lambda a: ("all_gather", ([a["input"]],)),
    "all_gather_into_tensor_coalesced": lambda a: ("all_gather", (a["inputs"],)),
    "reduce_scatter_tensor": lambda a: ("reduce_scatter", ([a["input"]], a["reduce_op"])),
    "reduce_scatter_tensor_coalesced": lambda a: ("reduce_scatter", (a["inputs"], a["reduce_op"])),
    "all_to_all_single": lambda a: ("all_to_all", (a["input"], a["output_split_sizes"], a["input_split_sizes"])),
    "broadcast": lambda a: ("broadcast", (a["input"], a["src"])),
    "isend": lambda a: ("send", (a["tensor"], a["dst"], a["tag"])),
    "irecv": lambda a: ("receive", (a["tensor"], a["src"], a["tag"])),
    "batch_p2p_ops": _transfer,
    "all_reduce_": lambda a: ("all_reduce_", ([a["input"]], a["reduce_op"])),
    "all_reduce_coalesced_": lambda a: ("all_reduce_", (a["inputs"], a["reduce_op"])),
    "broadcast_": lambda a: ("broadcast_", (a["input"], a["src"])),
    "all_gather_into_tensor_out": lambda a: ("all_gather_into", (a["input"], a["out"])),
    "reduce_scatter_tensor_out": lambda a: ("reduce_scatter_into", (a["input"], a["reduce_op"], a["out"])),
}


class _Finished:
    """A call of a collective that no task can carry. It runs in Python, waits for the results, and has the collective's
    name."""

    def __init__(self, collective: torch._ops.OpOverload) -> None:
        self.collective = collective
        self.__name__ = self.__qualname__ = str(collective).removesuffix(".default")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.collective(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.ops._c10d_functional.wait_tensor, result)

    def __repr__(self) -> str:
        return self.__name__
