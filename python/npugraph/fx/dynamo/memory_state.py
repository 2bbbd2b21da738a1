# SPDX-License-Identifier: Apache-2.0
"""Tracks which tensors of a recording share memory, and which node has their values after writes. This makes the
recorded graph functional.

A write through a tensor gives its memory a new state. If the tensor is a view, the inverse of the view
(``slice_scatter`` for ``slice``) puts the new values into its base. Other views of that memory are computed again when
they are next read.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


class NotRecorded(Exception):
    """A graph that only AOTAutograd can make functional. The text says why."""


@dataclasses.dataclass(eq=False)
class Memory:
    """One storage during a recording."""

    state: int = 0  # the number of writes to it
    of_input: bool = False


@dataclasses.dataclass(eq=False)
class View:
    """How a tensor was made from its base: ``operator(base, *rest, **keywords)``, or result ``item`` of that call."""

    base: Tracked
    operator: Any
    rest: tuple[Any, ...]
    keywords: dict[str, Any]
    item: int | None


@dataclasses.dataclass(eq=False)
class Tracked:
    """A tensor of the recording, and the node that has its values in state ``state`` of its memory. The node's value
    has the layout of the tensor. Once something was written, it lies in memory of its own."""

    tensor: torch.Tensor
    node: fx.Node
    memory: Memory
    state: int
    view: View | None = None


# Makes the node of the new base from: the operator of the view, its arguments behind the first, the node of the base,
# the node of the new values, and ``add``, which makes a node from an operator and its arguments.
_Inverse = Callable[[Any, tuple[Any, ...], fx.Node, fx.Node, Callable[..., fx.Node]], fx.Node]


def _scatter(operator: Any) -> _Inverse:
    return lambda _, rest, base, new, add: add(operator, base, new, *rest)


def _undo_permute(_: Any, rest: tuple[Any, ...], base: fx.Node, new: fx.Node, add: Callable[..., fx.Node]) -> fx.Node:
    rank = len(rest[0])
    dims = [dim % rank for dim in rest[0]]
    return add(aten.permute.default, new, [dims.index(i) for i in range(rank)])


_INVERSES: dict[Any, _Inverse] = {
    aten.slice.Tensor: _scatter(aten.slice_scatter.default),
    aten.select.int: _scatter(aten.select_scatter.default),
    aten.diagonal.default: _scatter(aten.diagonal_scatter.default),
    aten.t.default: lambda operator, rest, base, new, add: add(operator, new),
    aten.transpose.int: lambda operator, rest, base, new, add: add(operator, new, *rest),
    aten.permute.default: _undo_permute,
    aten.unsqueeze.default: lambda operator, rest, base, new, add: add(aten.squeeze.dim, new, *rest),
    aten.view.default: lambda operator, rest, base, new, add: add(operator, new, list(base.meta["val"].shape)),
    aten.alias.default: lambda operator, rest, base, new, add: new,
}


class MemoryState:
    """The tensors of one recording. ``add(operator, *args, **kwargs)`` makes a node from nodes and evaluates it."""

    def __init__(self, add: Callable[..., fx.Node]) -> None:
        self._add = add
        self._tracked: dict[int, Tracked] = {}  # by id of a tensor; all live as long as this object
        self._renamed: list[torch.Tensor] = []
        self._storages: set[int] = set()
        self.written: dict[int, Tracked] = {}  # by id: the first tensor of each memory that was written

    def find(self, tensor: torch.Tensor) -> Tracked | None:
        return self._tracked.get(id(tensor))

    def track(self, tensor: torch.Tensor, node: fx.Node, view: View | None = None) -> None:
        """Adds a new tensor, in memory of its own or as ``view`` says. Raises ``NotRecorded`` if it lies elsewhere."""
        storage = tensor.untyped_storage()._cdata
        if view is not None:
            lies_so = storage == view.base.tensor.untyped_storage()._cdata
        else:
            # By the definition of _unsafe_view, nothing else refers to the memory of its argument.
            lies_so = storage not in self._storages or node.target is aten._unsafe_view.default
        if not lies_so:
            raise NotRecorded(f"{node.target} shares memory in a way of its own")
        self._storages.add(storage)
        memory = view.base.memory if view is not None else Memory()
        self._tracked[id(tensor)] = Tracked(tensor, node, memory, memory.state, view)

    def rename(self, tensor: torch.Tensor, same: Tracked) -> None:
        """Adds ``tensor``, which is another object for the tensor of ``same``."""
        self._renamed.append(tensor)
        self._tracked[id(tensor)] = same

    def node(self, tracked: Tracked) -> fx.Node:
        """The node that has the current values. Computes the view again if its memory was written since."""
        if tracked.state != tracked.memory.state:
            view = tracked.view
            base = self.node(view.base)
            node = self._add(view.operator, base, *view.rest, **view.keywords)
            tracked.node = node if view.item is None else self._add(operator.getitem, node, view.item)
            tracked.state = tracked.memory.state
        return tracked.node

    def write(self, tracked: Tracked, node: fx.Node) -> None:
        """Makes the values of ``node`` the new values of ``tracked`` and of its memory. Raises ``NotRecorded`` for a
        view without an inverse, for values of another type or size, and for values with other strides than the old
        ones."""
        _check_type(node.meta["val"], tracked.tensor)
        while tracked.view is not None:
            node = self._put_back(tracked.view, node)
            tracked = tracked.view.base
        if node.meta["val"].stride() != tracked.tensor.stride():
            raise NotRecorded("a write changes how values lie in memory")
        tracked.memory.state += 1
        tracked.node, tracked.state = node, tracked.memory.state
        self.written[id(tracked.tensor)] = tracked

    def _put_back(self, view: View, node: fx.Node) -> fx.Node:
        invert = _INVERSES.get(view.operator)
        if invert is None:
            raise NotRecorded(f"a write through {view.operator}")
        return invert(view.operator, view.rest, self.node(view.base), node, self._add)


def _check_type(value: torch.Tensor, tensor: torch.Tensor) -> None:
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise NotRecorded("a write of values of another type")
