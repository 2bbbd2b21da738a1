# SPDX-License-Identifier: Apache-2.0
"""Control flow whose graphs write tensors from outside -> control flow that returns the new values of these tensors.

    while_loop(cond, body, (i, t), (s,))    ->    i, t, new = while_loop(cond', body', (i, t, s), ())
                                                  s.copy_(new)

Here ``body'`` writes a copy of ``s`` of its own. AOTAutograd can make such calls functional, too, but it takes their
arguments for tensors that share no memory, and it has no form for calls inside of calls. So Dynamo's graph is rewritten
before AOTAutograd sees it. ``pure_flow.py`` has the calls that replace those of the graph.

The graph of a ``nested_compile_region`` takes the place of its call: torch has no gradients of calls that write.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

from npugraph.fx.dynamo.pure_flow import Arguments, Memory, PureCond, PureLoop
from npugraph.fx.values import attribute, is_strided

_cond = torch.ops.higher_order.cond
_while_loop = torch.ops.higher_order.while_loop
_invoke_subgraph = torch.ops.higher_order.invoke_subgraph


class CannotCarry(Exception):
    """The arguments of a call share memory in a way for which there is no call without writes."""


def carry_writes(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns ``gm``, a graph of Dynamo, or a copy of it in which no graph of a ``cond`` or ``while_loop`` writes its
    arguments, and neither arguments nor results of one call share memory. Raises ``CannotCarry`` if that cannot be."""
    before = {name: child for name, child in gm.named_children() if isinstance(child, fx.GraphModule)}
    children = {name: carry_writes(child) for name, child in before.items()}
    changed = {name: child for name, child in children.items() if child is not before[name]}
    calls = {node: call for node in gm.graph.nodes if (call := _call_to_replace(gm, children, node)) is not None}
    if not changed and not calls:
        return gm
    own = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for name, child in changed.items():
        setattr(own, name, child)
    copies = dict(zip(gm.graph.nodes, own.graph.nodes, strict=True))
    for node, call in calls.items():
        _replace(own, copies[node], call.module(), [copies.get(arg, arg) for arg in call.inputs()])
    own.recompile()
    return own


def _replace(gm: fx.GraphModule, node: fx.Node, module: torch.nn.Module, inputs: Sequence[Any]) -> None:
    name = f"pure_{node.name}"
    gm.add_submodule(name, module)
    with gm.graph.inserting_before(node):
        made = gm.graph.call_module(name, tuple(inputs))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    gm.graph.erase_node(node)


def _call_to_replace(gm: fx.GraphModule, children: dict[str, fx.GraphModule], node: fx.Node) -> _Call | _Region | None:
    def graph(reference: fx.Node) -> fx.GraphModule:
        return children.get(reference.target) or attribute(gm, reference.target)

    if node.target is _cond:
        predicate, if_true, if_false, operands = node.args
        call = _Call([graph(if_true), graph(if_false)], [predicate], list(operands), 0)
    elif node.target is _while_loop:
        condition, body, carried, more = node.args
        call = _Call([graph(condition), graph(body)], [], [*carried, *more], len(carried))
    elif node.target is _invoke_subgraph:
        body, _, *operands = node.args
        return _Region(graph(body), operands)
    else:
        return None
    return call if call.is_impure() else None


class _Call:
    """A call of control flow: its graphs, its arguments, and what the graphs do to them. ``predicate`` is empty for a
    loop, which passes on ``carried`` of its arguments."""

    def __init__(
        self, graphs: Sequence[fx.GraphModule], predicate: Sequence[Any], arguments: list[Any], carried: int
    ) -> None:
        self.graphs = graphs
        self.predicate = predicate
        self.arguments = arguments
        self.carried = carried
        self.values = list(map(_value, arguments))
        self.storages = list(map(_storage, self.values))
        self.written, self.aliased = zip(*(_effects(graph, self.values) for graph in graphs), strict=True)
        self.roots: list[fx.Node] = []  # tensors around arguments
        self.memories = [self.memory(members) for members in self.written_together()]

    def is_impure(self) -> bool:
        storages = [storage for storage in self.storages if storage is not None]
        return bool(self.memories) or any(self.aliased) or len(set(storages)) < len(storages)

    def inputs(self) -> list[Any]:
        return [*self.predicate, *self.arguments, *self.roots]

    def module(self) -> torch.nn.Module:
        storages = [*self.storages, *(_storage(_value(root)) for root in self.roots)]
        arguments = Arguments(len(self.arguments), self.memories, storages)
        if self.predicate:
            return PureCond(self.graphs, arguments, self.aliased)
        of_condition, of_body = self.written
        loop = PureLoop(self.graphs, arguments, self.carried, of_condition, of_body)
        if loop.is_first_apart and any(map(_has_calls, self.graphs)):
            raise CannotCarry("the first value of a loop, whose graphs take their arguments for separate ones")
        return loop

    def written_together(self) -> Iterator[list[int]]:
        """The positions of arguments that may overlap, and some of which are written."""
        written = self.written[0] | self.written[1]
        groups: list[list[int]] = []
        for i, storage in enumerate(self.storages):
            if storage is None:
                continue
            near = [group for group in groups if any(self.may_overlap(i, k) for k in group)]
            groups = [group for group in groups if group not in near]
            groups.append([*(k for group in near for k in group), i])
        return (sorted(group) for group in groups if written & set(group))

    def may_overlap(self, i: int, k: int) -> bool:
        if self.storages[i] != self.storages[k]:
            return False
        one, other = _window(self.values[i]), _window(self.values[k])
        return one is None or other is None or (one.start < other.stop and other.start < one.stop)

    def memory(self, members: list[int]) -> Memory:
        nodes = [self.arguments[i] for i in members]
        if len(set(nodes)) == 1:
            return Memory(members, members[0], is_whole=True)
        self.roots.append(_root(nodes))
        return Memory(members, len(self.arguments) + len(self.roots) - 1, is_whole=False)


class _Region:
    """A call of a ``nested_compile_region``: its graph and its arguments."""

    def __init__(self, graph: fx.GraphModule, arguments: list[Any]) -> None:
        self.graph = graph
        self.arguments = arguments

    def inputs(self) -> list[Any]:
        return self.arguments

    def module(self) -> torch.nn.Module:
        return self.graph


def _has_calls(gm: fx.GraphModule) -> bool:
    nodes = (node for module in gm.modules() if isinstance(module, fx.GraphModule) for node in module.graph.nodes)
    return any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in nodes) or any(
        isinstance(module, (PureCond, PureLoop)) for module in gm.modules()
    )


def _value(argument: Any) -> Any:
    return argument.meta.get("example_value") if isinstance(argument, fx.Node) else argument


def _storage(value: Any) -> int | None:
    return value.untyped_storage()._cdata if is_strided(value) else None


def _window(tensor: torch.Tensor) -> range | None:
    """The places in its storage from the first to the last element of a tensor, in the call that is compiled for. None
    if only a run can tell."""
    numbers = (tensor.storage_offset(), *tensor.shape, *tensor.stride())
    known = [number if isinstance(number, int) else number.node.hint for number in numbers]
    if None in known:
        return None
    rank = tensor.dim()
    first, sizes, strides = known[0], known[1 : 1 + rank], known[1 + rank :]
    last = first + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return range(first, first if 0 in sizes else last + 1)


def _root(nodes: Sequence[fx.Node]) -> fx.Node:
    """The nearest node of whose tensor all ``nodes`` are views, or else the one of ``nodes`` around the others. Raises
    ``CannotCarry`` if there is none."""
    chains = [list(_viewed(node)) for node in nodes]
    for node in chains[0]:
        if all(node in chain for chain in chains):
            return node
    windows = [_window(_value(node)) for node in nodes]
    for node, window in zip(nodes, windows, strict=True):
        if None not in windows and all(window.start <= w.start and w.stop <= window.stop for w in windows):
            return node
    raise CannotCarry(f"{', '.join(node.name for node in nodes)}, which overlap in part")


def _viewed(node: fx.Node) -> Iterator[fx.Node]:
    """``node``, the node that it views, the node that this one views, and so on."""
    storage = _storage(_value(node))
    while node is not None:
        yield node
        node = next((base for base in node.all_input_nodes if _storage(_value(base)) == storage), None)


def _effects(gm: fx.GraphModule, values: Sequence[Any]) -> tuple[frozenset[int], frozenset[int]]:
    """The positions of the arguments that ``gm`` writes, and of its results in memory of arguments or of earlier
    results."""
    mode = detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    if mode is None:
        return frozenset(), frozenset()
    with mode, mode.shape_env.ignore_fresh_unbacked_symbols(), torch.inference_mode(False), torch.no_grad():
        arguments = list(map(_apart, values))
        results = gm(*arguments)
    storages = list(map(_storage, arguments))
    written = {i for i, storage in enumerate(storages) if storage is not None and arguments[i]._version != 0}
    seen, aliased = set(storages), set()
    for i, result in enumerate(results if isinstance(results, (tuple, list)) else [results]):
        storage = _storage(result)
        if storage is not None and storage in seen:
            aliased.add(i)
        seen.add(storage)
    return frozenset(written), frozenset(aliased)


def _apart(value: Any) -> Any:
    """A tensor like ``value`` in memory of its own that was never written."""
    if _storage(value) is None:
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
