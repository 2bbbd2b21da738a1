# SPDX-License-Identifier: Apache-2.0
"""Scopes, records and waits of the program: attributes of the operators in them, and order between these.

    scope_enter(["_user_stream_label"], ["side"])          y = relu(x)   Relu with _user_stream_label = "side"
    y = relu(x)                                       ->
    scope_exit(); wait([y]); z = tanh(x)                   z = tanh(x)   Tanh, which only runs after Relu

A step of the compile driver writes what the marks say into the metadata of nodes and removes the marks, so that graphs
can be cut. Readers of Ascend IR order operators by data; records, waits and events say more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from npugraph.fx.streams.scope_keys import OPTIONS, SCOPE
from npugraph.fx.streams.scopes import ScopeValueError, at, super_kernel_of
from npugraph.fx.streams.sections import Section, Strands, mark_sections
from npugraph.fx.streams.stream_marks import INNER_PARALLEL, LABEL, drop_marks, is_mark, marks
from npugraph.ge import attr
from npugraph.ge.fx.stages import is_copy

_ATTRIBUTES = "ge_attributes"  # metadata of a node: those of the operators that it becomes
NEVER_TIMEOUT, DATA_DUMP = "_op_exec_never_timeout", "torchair_enable_data_dump"
_FLAGS = (INNER_PARALLEL, NEVER_TIMEOUT, DATA_DUMP)  # all others are texts


def flag(value: bool) -> str:
    """A value of one of the keys that are flags."""
    return str(bool(value))


def read_scopes(gm: fx.GraphModule, *, single_stream: bool = False) -> Strands | None:
    """Writes into the metadata of each node the attributes of the scopes around it, and its section, one of those that
    are returned, or none for None. Removes all marks but records that the program sees. Raises ``ScopeError`` and
    ``ScopeValueError`` as ``mark_sections`` does, and ``ScopeValueError`` for a scope of a stream in a graph for a
    ``single_stream``."""
    strands = mark_sections(gm)
    open_: list[dict[str, str]] = []
    for node in list(gm.graph.nodes):
        scope, begins = _scope_of(node)
        if begins:
            if single_stream and LABEL in scope:
                text = f"a scope of a stream begins{at(node)}, and ge_config.enable_single_stream puts all on one"
                raise ScopeValueError(text, first_useful_frame=None)
            open_.append(scope)
        elif scope is not None:
            _close(open_, scope)
        elif node.op == "call_function" and open_:
            node.meta[_ATTRIBUTES] = _merged(open_)
        if is_copy(node):
            node.meta.pop("section", None)  # memory orders the copies into inputs
    forget_scopes(gm)
    return strands


def forget_scopes(gm: fx.GraphModule) -> None:
    """Removes all marks but records that the program sees."""
    drop_marks(gm.graph)
    for node in reversed(gm.graph.nodes):
        if super_kernel_of(node) is not None:
            gm.graph.erase_node(node)


def _scope_of(node: fx.Node) -> tuple[dict[str, str] | None, bool]:
    """The keys of a scope that a node begins or ends, and whether it begins it; None for another node."""
    if (found := super_kernel_of(node)) is not None:
        return {SCOPE: found.name, OPTIONS: found.options}, found.begins
    name = marks()[node.target] if is_mark(node) else ""
    if name == "scope_enter":
        given = dict(zip(("keys", "values"), node.args, strict=False)) | node.kwargs
        return dict(zip(given["keys"], given["values"], strict=True)), True
    return ({} if name == "scope_exit" else None), False


def scope_begun(node: fx.Node) -> dict[str, str] | None:
    """The keys of the scope that a mark begins; None for any other node."""
    scope, begins = _scope_of(node)
    return scope if begins else None


def _close(open_: list[dict[str, str]], scope: dict[str, str]) -> None:
    """Removes the innermost scope that a mark ends."""
    places = reversed(range(len(open_)))
    del open_[next(place for place in places if SCOPE not in scope or open_[place].get(SCOPE) == scope[SCOPE])]


def _merged(scopes: Sequence[dict[str, str]]) -> dict[str, str]:
    """The keys of nested scopes. A super kernel scope without a name keeps its operators out of those around it."""
    merged: dict[str, str] = {}
    for scope in scopes:
        if SCOPE in scope:
            merged.pop(OPTIONS, None)
        merged |= scope
    if not merged.get(SCOPE, "_"):
        del merged[SCOPE]
        merged.pop(OPTIONS, None)
    if not merged.get(OPTIONS, "_"):
        del merged[OPTIONS]
    return merged


def keeps_views(node: fx.Node) -> bool:
    """Whether a node is in a scope that is not of super kernels alone: consecutive views in it stay apart, so that each
    has its attributes."""
    return not {SCOPE, OPTIONS}.issuperset(node.meta.get(_ATTRIBUTES, ()))


class Scopes:
    """Writes attributes and order into the operators of a graph, in the order of its nodes. Sections are those of
    the metadata of nodes; there are none without ``strands``."""

    def __init__(self, strands: Strands | None) -> None:
        self._sections: Sequence[Section] = () if strands is None else strands.sections
        self._last: dict[int, Any] = {}  # by section: the last of its operators so far
        self._begun: set[int] = set()

    def add(self, node: fx.Node, ops: Sequence[Any]) -> None:
        """``ops`` are the operators that were added for ``node``."""
        ops = [op for op in ops if op.type != "Const"]
        for op in ops:
            for name, value in node.meta.get(_ATTRIBUTES, {}).items():
                kind = attr.Bool(value == flag(True)) if name in _FLAGS else attr.Str(value)
                kind.write(op.attr[name])
        section = node.meta.get("section")
        if section is None or not ops or not self._sections:
            return
        if section not in self._begun:
            self._begun.add(section)
            self._order(ops[0], section)
        self._last[section] = ops[-1]

    def _order(self, op: Any, section: int) -> None:
        """Lets ``op`` run after the sections that its section waits for."""
        waits = dict.fromkeys(f"{other.name}:-1" for other in self._awaited(section))
        for place, name in enumerate(name for name in waits if name not in op.input):
            op.input.insert(place, name)

    def _awaited(self, section: int) -> list[Any]:
        """The last operators of what a section waits for. A section without operators stands for those before it."""
        found: list[Any] = []
        for other in sorted(self._sections[section].after):
            found += self._ends(other)
        return found

    def _ends(self, section: int) -> list[Any]:
        if section in self._last:
            return [self._last[section]]
        stream = self._sections[section].stream
        earlier = [s for s in range(section) if self._sections[s].stream == stream]
        return self._awaited(section) + (self._ends(earlier[-1]) if earlier else [])


def strict_scopes(graph: Any) -> set[str]:
    """The names of the super kernel scopes of a graph of GE whose options forbid cutting them."""
    options = {(op.attr[SCOPE].s.decode(), op.attr[OPTIONS].s.decode()) for op in graph.op if OPTIONS in op.attr}
    return {scope for scope, given in options if "strict-scope-check=abort" in given.split(":")}
