# SPDX-License-Identifier: Apache-2.0
"""The stages in which a graph runs whose calls are partly eager: by turns eager and a graph of GE.

    y = relu(x); i = argsort(y); z = y * 2; r = y[i] + z     with argsort eager
    stage 1 (GE): y, z      stage 2 (eager): i      stage 3 (GE): r

A call is in the first stage of its kind behind the calls that it needs. So there are as few stages of GE as the
longest chain has that goes back and forth. Eager calls then move to the last stage that serves their readers, which
brings them together. So do calls of GE that need no others of GE, such as masks, and casts of weights, whose results
are then not kept from stage to stage.

``Reads`` says which calls a call needs: because of their results, of memory that is written in place, and
of effects.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Collection
from typing import Any, NamedTuple

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.fx.schema import arguments_by_name, is_mutable, is_view, may_draw, written_arguments
from npugraph.fx.streams.stream_marks import is_mark
from npugraph.fx.translate.importer import SETTLED_CHECKS
from npugraph.ge.fx.values import call_of, is_number

aten = torch.ops.aten

# What asks for the sizes of a tensor and for its place in its storage.
QUERIES = {
    aten.sym_size.int,
    aten.sym_stride.int,
    aten.sym_numel.default,
    aten.sym_storage_offset.default,
}


class Reads:
    """Of a graph. Constants, sizes, functions of numbers, views, and tensors that need no other ones cost next to
    nothing, so they are made wherever they are read. All other calls are in ``calls``, in the order of the graph; so
    are nodes of ``refused`` in any case. ``symbols`` has a node for the value of each symbol."""

    def __init__(self, graph: fx.Graph, symbols: dict[sympy.Symbol, fx.Node], refused: Collection[fx.Node]) -> None:
        self.symbols = symbols
        self._refused = refused
        self._made_of: dict[fx.Node, frozenset[fx.Node]] = {}
        self._writes = collections.Counter(storage for node in graph.nodes for storage in _written(node))
        self.calls = [node for node in graph.nodes if self._is_call(node)]
        others = [call for call in self.calls if not is_copy(call)]
        self._results = set().union(*(_storages(call.meta.get("val")) for call in others))
        self.before = self._dependencies()

    def is_made_where_read(self, node: fx.Node) -> bool:
        if node.op != "call_function" or node in self._refused:
            return node.op == "get_attr"
        if node.target is operator.getitem:
            return self.is_made_where_read(node.args[0])
        if is_number(node.meta.get("val")):
            return not _reads_elements(node)
        return isinstance(node.target, torch._ops.OpOverload) and (is_view(node.target) or self._is_new(node))

    def same_value(self, node: fx.Node) -> fx.Node:
        """The node that all nodes with the same value stand for: a written input, or the definition of a symbol."""
        while is_copy(node):
            node = node.args[0]  # type: ignore[assignment]
        value = node.meta.get("val")
        return self.symbols.get(value.node.expr, node) if isinstance(value, torch.SymInt) else node

    def made_of(self, node: fx.Node) -> frozenset[fx.Node]:
        """The results of calls that the value of ``node`` is made of: calls, and items of calls that have several
        results."""
        node = self.same_value(node)
        if node not in self._made_of:
            if node.op == "call_function" and not self.is_made_where_read(node):
                self._made_of[node] = frozenset([node])
            else:
                self._made_of[node] = self.read_by(node)
        return self._made_of[node]

    def read_by(self, node: fx.Node) -> frozenset[fx.Node]:
        """The results of calls that ``node`` reads."""
        return frozenset().union(*map(self.made_of, node.all_input_nodes))

    def is_written_once(self, node: fx.Node) -> bool:
        """Whether one call of the graph writes the memory of a tensor."""
        return all(self._writes[storage] == 1 for storage in _storages(node.meta.get("val")))

    def is_shared(self, node: fx.Node) -> bool:
        """Whether results of calls lie in the memory of an input."""
        return not self._results.isdisjoint(_storages(node.meta.get("val")))

    def _is_new(self, node: fx.Node) -> bool:
        """Whether a call makes a tensor of no other one, which nothing writes."""
        storages = _storages(node.meta.get("val"))
        is_settled = not _has_effects(node) and not storages & self._writes.keys()
        return bool(storages) and is_settled and _needs_only_numbers(node)

    def _is_call(self, node: fx.Node) -> bool:
        if node.op != "call_function" or node.target in SETTLED_CHECKS or is_mark(node):
            return False
        is_item = node.target is operator.getitem and node not in self._refused
        return not is_item and not self.is_made_where_read(node)

    def _dependencies(self) -> dict[fx.Node, set[fx.Node]]:
        """For each call, the calls that run before it."""
        last_effect: fx.Node | None = None
        writers: dict[int, fx.Node] = {}
        readers: dict[int, list[fx.Node]] = {}
        before: dict[fx.Node, set[fx.Node]] = {}
        for call in self.calls:
            needed = set(map(call_of, self.read_by(call)))
            if _has_effects(call):
                needed |= {last_effect} if last_effect else set()
                last_effect = call
            written = _written(call)
            for storage in _touched(call) & self._writes.keys():
                needed |= {writers[storage]} if storage in writers else set()
                if storage in written:
                    needed.update(readers.pop(storage, ()))
                    writers[storage] = call
                else:
                    readers.setdefault(storage, []).append(call)
            before[call] = needed - {call}
        return before


def is_copy(node: fx.Node) -> bool:
    """Whether a call copies a value into an input."""
    return node.target is aten.copy_.default and node.args[0].op == "placeholder"  # type: ignore[union-attr]


def _reads_elements(node: fx.Node) -> bool:
    """Whether a number depends on the elements of a tensor, so that it is another one when the tensor is written."""
    return node.op == "call_function" and node.target not in QUERIES and not _needs_only_numbers(node)


def _needs_only_numbers(node: fx.Node) -> bool:
    return all(is_number(operand.meta.get("val")) for operand in node.all_input_nodes)


def _has_effects(node: fx.Node) -> bool:
    """Whether the order of the call among others of this kind matters. Memory gives copies into inputs their order."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    draws = isinstance(node.target, torch._ops.OpOverload) and may_draw(node.target, node.args, node.kwargs)
    return draws or (node.is_impure(impure_random=False) and not is_copy(node))


def _touched(node: fx.Node) -> set[int]:
    """The memory that a call reads or writes."""
    return set().union(*(_storages(operand.meta.get("val")) for operand in node.all_input_nodes))


def _written(node: fx.Node) -> set[int]:
    """The memory that a call writes."""
    if not is_mutable(node.target):
        return set()
    given = arguments_by_name(node.target, node.args, node.kwargs)
    names = written_arguments(node.target)
    operands = [leaf for name in names for leaf in pytree.tree_leaves(given.get(name)) if isinstance(leaf, fx.Node)]
    return set().union(*(_storages(operand.meta.get("val")) for operand in operands))


def _storages(value: Any) -> set[int]:
    tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return {tensor.untyped_storage()._cdata for tensor in tensors if tensor.layout is torch.strided}


class Stage(NamedTuple):
    is_eager: bool
    calls: list[fx.Node]


class Stages:
    """``eager`` are the calls that run eagerly. So do those whose result is a number, which no graph of GE returns.
    Copies into inputs run with the graph of GE that computes the value, if nothing reads the old value later, and
    otherwise eagerly."""

    def __init__(self, reads: Reads, eager: Collection[fx.Node]) -> None:
        self._reads = reads
        self._eager = {*eager, *(call for call in reads.calls if is_number(call.meta.get("val")))}
        self._numbers: dict[fx.Node, int] = {}  # even ones are eager
        for call in reads.calls:
            self._numbers[call] = self._first(call)
        self._move_to_readers()

    def of(self, result: fx.Node) -> int:
        """The number of the stage of a call or of an item of its results."""
        return self._numbers[call_of(result)]

    def in_order(self) -> list[Stage]:
        """The stages that have calls, with the calls in the order of the graph."""
        calls: dict[int, list[fx.Node]] = {}
        for call, number in self._numbers.items():
            calls.setdefault(number, []).append(call)
        return [Stage(number % 2 == 0, calls[number]) for number in sorted(calls)]

    def _first(self, call: fx.Node) -> int:
        least = max((self._numbers[needed] for needed in self._reads.before[call]), default=0)
        if is_copy(call) and call not in self._eager and not self._runs_with_its_value(call, least):
            self._eager.add(call)
        is_of_kind = (least % 2 == 0) == (call in self._eager)
        return least if is_of_kind else least + 1

    def _runs_with_its_value(self, copy: fx.Node, least: int) -> bool:
        written, value = copy.args[:2]
        if least % 2 == 0 or self._reads.is_shared(written):  # type: ignore[arg-type]
            return False  # graphs of GE write no memory that other inputs of theirs lie in
        return any(self.of(result) == least for result in self._reads.made_of(value))  # type: ignore[arg-type]

    def _move_to_readers(self) -> None:
        last = max((self._numbers[call] for call in self._eager), default=0)
        readers: dict[fx.Node, list[fx.Node]] = {call: [] for call in self._numbers}
        free: set[fx.Node] = set()  # calls of GE that need nothing of those that stay
        for call, needed in self._reads.before.items():
            for one in needed:
                readers[one].append(call)
            if call not in self._eager and all(one in free or one in self._eager for one in needed):
                free.add(call)
        for call in reversed(self._numbers):
            is_eager = call in self._eager
            latest = [self._numbers[reader] - ((reader in self._eager) != is_eager) for reader in readers[call]]
            if is_eager:
                self._numbers[call] = min(latest, default=last)
            elif call in free and latest:
                self._numbers[call] = min(latest)
