# SPDX-License-Identifier: Apache-2.0
"""Which tensors share memory, and what each of them holds after writes: what makes a recorded graph functional.

A write through one tensor gives its memory a new state. What the written tensor is a view of gets the new values by the
inverse of the view (``slice`` by ``slice_scatter``); views of that memory are taken again when next read.
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
    """A graph that only AOTAutograd makes functional; the text says why."""


@dataclasses.dataclass(eq=False)
class Memory:
    """One storage, as long as the recording lasts."""

    state: int = 0  # how often it was written
    of_input: bool = False


@dataclasses.dataclass(eq=False)
class View:
    """How a tensor was taken from another: ``operator(base, *rest)``, of its results number ``item``."""

    base: Tracked
    operator: Any
    rest: tuple[Any, ...]
    keywords: dict[str, Any]
    item: int | None


@dataclasses.dataclass(eq=False)
class Tracked:
    """A tensor of the recording, and the node that has its values in state ``state`` of its memory. The node's value
    lies as the tensor does, but in memory of its own once something was written."""

    tensor: torch.Tensor
    node: fx.Node
    memory: Memory
    state: int
    view: View | None = None


# (operator, its arguments behind the first, node of the base, node of the new values, add) -> node of the new base.
# ``add`` makes a node of an operator and its arguments.
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
    """The tensors of one recording. ``add(operator, *args, **kwargs)`` makes a node, with its value, of nodes."""

    def __init__(self, add: Callable[..., fx.Node]) -> None:
        self._add = add
        self._tracked: dict[int, Tracked] = {}  # by id of tensors that live as long as this
        self._renamed: list[torch.Tensor] = []
        self._storages: set[int] = set()
        self.written: dict[int, Tracked] = {}  # first tensors of a memory that a write has changed, by id

    def find(self, tensor: torch.Tensor) -> Tracked | None:
        return self._tracked.get(id(tensor))

    def track(self, tensor: torch.Tensor, node: fx.Node, view: View | None = None) -> None:
        """``tensor`` is new: in memory of its own, or as ``view`` says. ``NotRecorded`` when it lies elsewhere."""
        storage = tensor.untyped_storage()._cdata
        if view is not None:
            lies_so = storage == view.base.tensor.untyped_storage()._cdata
        else:
            # Its argument is memory that nobody else knows, by its definition.
            lies_so = storage not in self._storages or node.target is aten._unsafe_view.default
        if not lies_so:
            raise NotRecorded(f"{node.target} shares memory in a way of its own")
        self._storages.add(storage)
        memory = view.base.memory if view is not None else Memory()
        self._tracked[id(tensor)] = Tracked(tensor, node, memory, memory.state, view)

    def rename(self, tensor: torch.Tensor, same: Tracked) -> None:
        """``tensor`` is another object for what ``same`` is."""
        self._renamed.append(tensor)
        self._tracked[id(tensor)] = same

    def node(self, tracked: Tracked) -> fx.Node:
        """The node that has the values of now."""
        if tracked.state != tracked.memory.state:
            view = tracked.view
            base = self.node(view.base)
            node = self._add(view.operator, base, *view.rest, **view.keywords)
            tracked.node = node if view.item is None else self._add(operator.getitem, node, view.item)
            tracked.state = tracked.memory.state
        return tracked.node

    def write(self, tracked: Tracked, node: fx.Node) -> None:
        """From now on the memory of ``tracked`` holds the values of ``node``. ``NotRecorded`` when it is a view of a
        kind that cannot be undone, or when the new values lie in memory otherwise than the old ones."""
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
