# SPDX-License-Identifier: Apache-2.0
"""Joins all-reduces of gradients into fewer messages, as DistributedDataParallel does, and puts what is computed from
their results behind the rest, so that it does not wait for them."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
from torch import fx

# The default of DistributedDataParallel's bucket_cap_mb.
_MOST_BYTES = 25 << 20


@dataclasses.dataclass
class _Bucket:
    """All-reduces that nothing between them keeps from being joined."""

    members: list[fx.Node] = dataclasses.field(default_factory=list)
    late: list[fx.Node] = dataclasses.field(default_factory=list)  # nodes computed from results of members, in order
    bytes: int = 0

    def reads(self, node: fx.Node) -> bool:
        made = {*self.members, *self.late}
        return any(operand in made for operand in node.all_input_nodes)


def bucket_all_reduces(gm: fx.GraphModule) -> int:
    """Joins ``npugraph::all_reduce`` nodes of one reduction, group, device and dtype that do not depend on each other,
    in place. The joint node stands where the last of them stood, and nodes computed from their results move behind it.
    Nothing moves past other collectives, writes and random operators. Returns the number of nodes that were removed."""
    target = _all_reduce(gm)
    if target is None:
        return 0
    open_: dict[Any, _Bucket] = {}
    closed: list[_Bucket] = []
    for node in list(gm.graph.nodes):
        for bucket in open_.values():
            if bucket.reads(node) and node.op == "call_function":
                bucket.late.append(node)
        if node.target is not target:
            if not _may_move(node):
                closed += open_.values()
                open_.clear()
            continue
        key, size = _key(node), _bytes(node)
        bucket = open_.get(key)
        if bucket is not None and (node in bucket.late or size is None or bucket.bytes + size > _MOST_BYTES):
            closed.append(open_.pop(key))
        if size is not None:
            bucket = open_.setdefault(key, _Bucket())
            bucket.members.append(node)
            bucket.bytes += size
    return sum(map(_join, [*closed, *open_.values()]))


def sink_results(gm: fx.GraphModule) -> None:
    """Moves nodes that are computed from results of ``npugraph::all_reduce`` behind those that need no such result,
    in place. They move past other collectives, but not past writes and random operators."""
    target = _all_reduce(gm)
    if target is None:
        return
    reduces: set[fx.Node] = set()
    late: dict[fx.Node, None] = {}  # in order
    for node in list(gm.graph.nodes):
        waits = node.op == "call_function" and any(n in reduces or n in late for n in node.all_input_nodes)
        if waits and _may_move(node):
            late[node] = None
            continue
        if node.target is target:
            reduces.add(node)
        if waits or (node.target is not target and not _may_move(node)):
            for each in late:
                node.prepend(each)
            late = {}


def _all_reduce(gm: fx.GraphModule) -> Any:
    names = {str(node.target): node.target for node in gm.graph.nodes if node.op == "call_function"}
    return names.get("npugraph.all_reduce.default")


def _may_move(node: fx.Node) -> bool:
    """Whether nodes that stand before this one may run after it."""
    if node.op != "call_function" or node.target is operator.getitem:
        return node.op != "output"
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    impure = node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags
    return not impure and node.target.namespace in ("aten", "prims")


def _key(node: fx.Node) -> tuple[Any, ...]:
    inputs, reduce_op, group, _ = node.args
    value = inputs[0].meta["val"]
    return reduce_op, group, value.dtype, value.device


def _bytes(node: fx.Node) -> int | None:
    """The bytes of all inputs. None if their sizes are not known or their dtypes differ."""
    values = [operand.meta["val"] for operand in node.args[0]]
    sizes = [value.numel() for value in values]
    if any(value.dtype != values[0].dtype for value in values) or not all(isinstance(size, int) for size in sizes):
        return None
    return sum(sizes) * values[0].element_size()


def _join(bucket: _Bucket) -> int:
    if len(bucket.members) < 2:
        return 0
    last = bucket.members[-1]
    graph = last.graph
    items = [user for member in bucket.members for user in list(member.users)]
    offsets, inputs = {}, []
    for member in bucket.members:
        offsets[member] = len(inputs)
        inputs += member.args[0]
    with graph.inserting_after(last):
        whole = graph.call_function(last.target, (inputs, *last.args[1:]))
    whole.meta = dict(last.meta)
    whole.meta["val"] = [value for member in bucket.members for value in member.meta["val"]]
    for item in items:
        item.args = (whole, offsets[item.args[0]] + item.args[1])
    end = whole
    moved = {*items, *bucket.late}
    for node in [node for node in _before(whole) if node in moved]:
        end.append(node)
        end = node
    for member in bucket.members:
        graph.erase_node(member)
    return len(bucket.members) - 1


def _before(node: fx.Node) -> list[fx.Node]:
    found = []
    while (node := node.prev).op != "root":
        found.append(node)
    return found[::-1]
