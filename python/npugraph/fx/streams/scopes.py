# SPDX-License-Identifier: Apache-2.0
"""Scopes of the user in a graph. A mark begins a scope, and another mark in the same graph ends it.

npu.super_kernel_scope_begin("a");  y = aten.add(x, 1);  npu.super_kernel_scope_end("a")
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import traceback
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple

from torch import fx
from torch._dynamo.exc import ShortenTraceback
from torch._dynamo.utils import graph_break_reasons
from torch._ops import OpOverload, OpOverloadPacket

from npugraph.fx import dynamo_breaks
from npugraph.fx.source_lines import frames_of, is_users


class ScopeError(ShortenTraceback):
    """A scope of the program does not close in its graph, or asks for something that it cannot become."""


class ScopeValueError(ShortenTraceback, ValueError):
    """A wait of the program has nothing to wait for."""


@dataclasses.dataclass(frozen=True)
class _Kind:
    words: str
    begin: str
    end: str


_KINDS = (
    _Kind("super kernel scope", "npu.super_kernel_scope_begin", "npu.super_kernel_scope_end"),
    _Kind("super kernel scope", "npugraph_ex.super_kernel_scope_begin", "npugraph_ex.super_kernel_scope_end"),
    _Kind("stream or core limit scope", "npugraph_ex.scope_enter", "npugraph_ex.scope_exit"),
    _Kind("scope of torchair", "air.scope_enter", "air.scope_exit"),
)
_OPERATORS = (OpOverload, OpOverloadPacket)
_BEGINS = {kind.begin: kind for kind in _KINDS}
_ENDS = {kind.end: kind for kind in _KINDS}


def problem(graph: fx.Graph) -> str | None:
    """Describes the first mark of the graph that has no counterpart, with the user's line. None if all marks pair."""
    open_: list[tuple[_Kind, Any, fx.Node]] = []
    for node in _marks(graph):
        name = _name(node.target)
        if kind := _BEGINS.get(name):
            open_.append((kind, _label(node, kind), node))
            continue
        kind = _ENDS[name]
        label = _label(node, kind)
        begun = next((scope for scope in reversed(open_) if scope[:2] == (kind, label)), None)
        if begun is None:
            return f"{_words(kind, label)} ends{at(node)}, and does not begin in this graph"
        open_.remove(begun)
    if not open_:
        return None
    kind, label, node = open_[0]
    return f"{_words(kind, label)} begins{at(node)}, and does not end in this graph"


def check_scopes(gm: fx.GraphModule) -> None:
    """Raises ``ScopeError`` if a graph of Dynamo cuts a scope. The error names the cause of the graph break."""
    found = problem(gm.graph)
    if found is None:
        return
    raise ScopeError(found + (why_open(gm, _marks(gm.graph)) or ": it is left open"), first_useful_frame=None)


def why_open(gm: fx.GraphModule, begins: Iterable[fx.Node]) -> str | None:
    """Says what broke a graph of Dynamo in which scopes do not end, and what to do about it. The marks ``begins`` begin
    these scopes. None if nothing broke the graph."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        why = f", because of a graph break{dynamo_breaks.described(reason)}"
    elif not any(is_users(file) for mark in begins for file, _, _ in frames_of(mark)):
        why = f"; its block{_skipped_block()}"
    else:
        return None
    return f"{why}. Move that out of the scope; torch.compile(fullgraph=True) shows it in full."


def strict_scopes(graph: fx.Graph) -> set[str]:
    """The names of the super kernel scopes whose own options forbid cutting them."""
    wanted = "strict-scope-check=abort"
    return {node.args[0] for node in _marks(graph) if wanted in node.args[1:]}


class SuperKernelMark(NamedTuple):
    name: str
    options: str
    begins: bool


def super_kernel_of(node: fx.Node) -> SuperKernelMark | None:
    """What a mark of a super kernel scope says; None for another node."""
    name = _name(node.target) if isinstance(node.target, _OPERATORS) else ""
    if not name.endswith((".super_kernel_scope_begin", ".super_kernel_scope_end")):
        return None
    given = [*node.args, *(node.kwargs.get(key) for key in ("scope_name", "options")[len(node.args) :])]
    return SuperKernelMark(given[0] or "", given[1] or "", name.endswith("begin"))


def _marks(graph: fx.Graph) -> list[fx.Node]:
    marks = _BEGINS.keys() | _ENDS.keys()
    return [node for node in graph.nodes if isinstance(node.target, _OPERATORS) and _name(node.target) in marks]


@functools.cache
def _name(target: OpOverload | OpOverloadPacket) -> str:
    """The name of an operator, such as ``npu.super_kernel_scope_begin``. Its default overload has the same name."""
    return str(target).removesuffix(".default")


def _label(node: fx.Node, kind: _Kind) -> Any:
    """The label that must be equal at both ends of a scope. None for the scope of a stream, whose end names none."""
    if kind.begin.endswith(".scope_enter"):
        return None
    return node.args[0] if node.args else node.kwargs.get("scope_name")


def _words(kind: _Kind, label: Any) -> str:
    return f"{kind.words} {label!r}" if label else f"a {kind.words}"


def at(node: fx.Node) -> str:
    """The user's line of a mark, as `` at model.py:12 in forward``: the innermost line outside the packages that have
    the marks. Empty if there is none."""
    own = [frame for frame in frames_of(node) if is_users(frame[0])]
    return " at {}:{} in {}".format(*own[-1]) if own else ""


def _running() -> tuple[FrameType, int] | None:
    """The user's innermost function that is running, and its line."""
    stack = traceback.walk_stack(sys._getframe())
    return next(((frame, line) for frame, line in stack if is_users(frame.f_code.co_filename)), None)


def _skipped_block() -> str:
    """Describes the user's function that is running uncompiled, and why Dynamo gave up on it."""
    running = _running()
    if running is None:
        return f" is not compiled, because of a graph break: {dynamo_breaks.last()}"
    code, line = running[0].f_code, running[1]
    lines = [number for _, _, number in code.co_lines() if number is not None]
    inside = [
        reason
        for reason in graph_break_reasons
        for frame in reason.user_stack
        if frame.filename == code.co_filename and min(lines) <= frame.lineno <= max(lines)
    ]
    why = dynamo_breaks.described(inside[-1]) if inside else f": {dynamo_breaks.last()}"
    return f" at {code.co_filename}:{line} in {code.co_name} is not compiled, because of a graph break{why}"
