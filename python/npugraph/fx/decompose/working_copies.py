# SPDX-License-Identifier: Apache-2.0
"""Functional forms of operators that write arguments -> the operators themselves, on copies of these arguments.

    r = auto_functionalized_v2(my.update_, _x_base_index=0, _all_bases=[k])    ->    c = clone(k)
    n = r[1]                                                                          my.update_(c)

The graph passes then remove the copies that nobody can tell from the original (``remove_copies``, and for inputs
``reinplace_inputs``). So copies are saved here only in chains of updates of one tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import (
    AliasViewInfo,
    AsStridedViewInfo,
    NotView,
    SliceViewInfo,
    auto_functionalized,
    auto_functionalized_v2,
    get_mutable_args,
    read_view_information_from_args,
)
from torch._library.utils import is_out
from torch._prims_common import is_non_overlapping_and_dense_or_false

from npugraph.fx.nodes import add_call, end_of, geometry
from npugraph.fx.schema import is_view

aten = torch.ops.aten


def write_working_copies(graph: fx.Graph) -> None:
    """Rewrites the graph in place. Functional forms of higher-order operators stay."""
    undo = _Undo(graph)
    for node in list(graph.nodes):
        if node.target in (auto_functionalized, auto_functionalized_v2) and isinstance(
            node.args[0], torch._ops.OpOverload
        ):
            with graph.inserting_before(node):
                undo.run(node)


class _Undo:
    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.copies: set[fx.Node] = set()  # nodes that this class made

    def run(self, node: fx.Node) -> None:
        op = node.args[0]
        kwargs = dict(node.kwargs)
        if is_out(op):
            written = self.make_outs(node, kwargs)
            results = list(written.values())
        elif node.target is auto_functionalized_v2:
            bases = [self.copy(node, base) for base in kwargs.pop("_all_bases", ())]
            written = self.arguments_of_bases(node, kwargs, bases)
            results = bases
        else:
            names, _ = get_mutable_args(op)
            written = {name: self.copy_all(node, kwargs[name]) for name in names}
            results = list(written.values())
        call = self.add_call(node, kwargs | written)
        own = [] if is_out(op) else self.own_results(node, call, written)
        self.replace(node, [*own, *results])

    def make_outs(self, node: fx.Node, kwargs: dict[str, Any]) -> dict[str, fx.Node]:
        """Makes the arguments that are written and not read."""
        made = {}
        for name in get_mutable_args(node.args[0])[0]:
            size, stride, dtype, device = (
                kwargs.pop(f"_{name}_{fact}") for fact in ("size", "stride", "dtype", "device")
            )
            made[name] = add_call(
                self.graph, node, aten.empty_strided.default, list(size), list(stride), dtype=dtype, device=device
            )
        return made

    def copy_all(self, node: fx.Node, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self.copy(node, item) for item in value]
        return self.copy(node, value)

    def copy(self, node: fx.Node, base: fx.Node | None) -> fx.Node | None:
        """A copy that ``node`` may write, with the same strides at the same place in its storage. If ``base`` is such a
        copy and nobody reads it later, ``base`` itself."""
        if base is None or (base in self.copies and not self.is_read_after(node, base)):
            return base
        value = base.meta["val"]
        if (
            is_non_overlapping_and_dense_or_false(value)
            and isinstance(value.storage_offset(), int)
            and value.storage_offset() == 0
        ):
            made = add_call(self.graph, node, aten.clone.default, base)
        else:
            around = add_call(self.graph, node, aten.as_strided.default, base, [end_of(self.graph, base)], [1], 0)
            copied = add_call(self.graph, node, aten.clone.default, around)
            made = add_call(self.graph, node, aten.as_strided.default, copied, *geometry(self.graph, base))
        self.copies.add(made)
        return made

    def is_read_after(self, node: fx.Node, base: fx.Node) -> bool:
        for user in base.users:
            position = self.position.get(user, -1)  # added nodes stand before
            if position > self.position[node]:
                return True
            names_it = isinstance(user.target, torch._ops.OpOverload) and is_view(user.target)
            if (names_it or user.target is operator.getitem) and self.is_read_after(node, user):
                return True
        return False

    def arguments_of_bases(
        self, node: fx.Node, kwargs: dict[str, Any], bases: Sequence[fx.Node | None]
    ) -> dict[str, Any]:
        """The written arguments as views of ``bases``. Removes the keywords that describe the views from ``kwargs``."""
        views = read_view_information_from_args(
            *get_mutable_args(node.args[0]), kwargs, list(node.kwargs["_all_bases"])
        )

        def view(info: Any) -> Any:
            if isinstance(info, list):
                return [view(item) for item in info]
            return None if info is None else self.view(node, bases[info.base_index], info)

        return {name: view(info) for name, info in views.items()}

    def view(self, node: fx.Node, base: fx.Node, info: Any) -> fx.Node:
        if isinstance(info, (NotView, AliasViewInfo)):
            return base
        if isinstance(info, SliceViewInfo):
            return add_call(self.graph, node, aten.slice.Tensor, base, info.dim, info.start, info.end)
        if not isinstance(info, AsStridedViewInfo):
            raise TypeError(f"{node.args[0]} writes a view of a new kind: {info}")
        place = list(info.size), list(info.stride), info.storage_offset
        return add_call(self.graph, node, aten.as_strided.default, base, *place)

    def add_call(self, node: fx.Node, kwargs: Mapping[str, Any]) -> fx.Node:
        """Calls the operator itself. Its value is that of the functional form, whose symbols stand in the graph."""
        call = self.graph.call_function(node.args[0], (), dict(kwargs))
        call.meta = {key: value for key, value in node.meta.items() if key != "unbacked_bindings"}
        count = len(node.args[0]._schema.returns)
        value = node.meta["val"]
        call.meta["val"] = None if count == 0 else value[0] if count == 1 else tuple(value[:count])
        if bindings := node.meta.get("unbacked_bindings"):
            call.meta["unbacked_bindings"] = {
                symbol: path[1:] if count == 1 else path for symbol, path in bindings.items()
            }
        return call

    def own_results(self, node: fx.Node, call: fx.Node, written: Mapping[str, Any]) -> list[Any]:
        """The results of the operator: the arguments that its schema says it returns, and new tensors."""
        schema = node.args[0]._schema
        by_alias = {alias: a.name for a in schema.arguments if a.name in written for alias in a.alias_info.before_set}
        own: list[Any] = []
        for i, result in enumerate(schema.returns):
            if result.alias_info is not None and result.alias_info.is_write:
                own.append(written[by_alias[min(result.alias_info.before_set)]])
            elif len(schema.returns) == 1:
                own.append(call)
            else:
                item = self.graph.call_function(operator.getitem, (call, i))
                item.meta = {**node.meta, "val": call.meta["val"][i]}
                own.append(item)
        return own or [None]

    def replace(self, node: fx.Node, results: Sequence[Any]) -> None:
        if is_out(node.args[0]) and len(results) == 1:
            node.replace_all_uses_with(results[0])
        for item in list(node.users):
            if results[item.args[1]] is not None:
                item.replace_all_uses_with(results[item.args[1]])
                self.graph.erase_node(item)
        if not node.users:
            self.graph.erase_node(node)
