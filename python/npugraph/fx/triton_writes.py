# SPDX-License-Identifier: Apache-2.0
"""Which arguments a Triton kernel writes, read from its source.

A pointer is an argument plus offsets, so each name of the kernel may point into the arguments that its values were
computed from. What ``tl.load`` gives points nowhere. Where the source does not tell, an argument counts as written;
this costs a copy at worst.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

_WRITING = ("store", "atomic", "asm")  # parts of names of functions of triton.language that write
_NOTHING: frozenset[str] = frozenset()


@functools.cache
def written_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters of the function of a kernel through which it may write."""
    return _written(function, ())


def _written(function: Callable[..., Any], callers: tuple[Callable[..., Any], ...]) -> frozenset[str]:
    parameters = frozenset(inspect.signature(function).parameters)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return parameters
    if function in callers:
        return parameters
    definition = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    pointers = _Pointers(function, parameters, (*callers, function))
    while pointers.grow(definition):
        pass
    return frozenset(pointers.written)


class _Pointers(ast.NodeVisitor):
    """For each name of a function, the parameters that it may point into."""

    def __init__(
        self, function: Callable[..., Any], parameters: frozenset[str], callers: tuple[Callable[..., Any], ...]
    ) -> None:
        self.written: set[str] = set()
        self._into = {name: frozenset({name}) for name in parameters}
        self._names = vars(builtins) | function.__globals__ | inspect.getclosurevars(function).nonlocals
        self._callers = callers

    def grow(self, definition: ast.FunctionDef) -> bool:
        """Follows each statement once. Returns whether more became known; a loop may carry it back to its begin."""
        before = dict(self._into), set(self.written)
        for statement in definition.body:
            self.visit(statement)
        return before != (self._into, self.written)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)
        self.generic_visit(node)

    visit_AnnAssign = visit_NamedExpr = visit_AugAssign

    def visit_For(self, node: ast.For) -> None:
        self._assign(node.target, node.iter)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self._value(node.func)
        kernel = getattr(called, "fn", called)  # jit wraps the function
        module = getattr(kernel, "__module__", None) or ""
        if module == "builtins" and called is not None:
            return
        if module.split(".")[0] == "triton":
            if not any(word in getattr(kernel, "__name__", "") for word in _WRITING):
                return
            self.written |= self._parameters(node)
        elif kernel is not called and callable(kernel):
            self._call(node, kernel)
        else:
            self.written |= self._parameters(node)

    def _call(self, node: ast.Call, function: Callable[..., Any]) -> None:
        """Follows a call of another kernel."""
        written = _written(function, self._callers)
        by_name = dict(zip(inspect.signature(function).parameters, node.args, strict=False))
        by_name |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        is_plain = len(by_name) == len(node.args) + len(node.keywords)
        for name, argument in by_name.items():
            if name in written or not is_plain:
                self.written |= self._parameters(argument)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        found = self._parameters(value)
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self._into[name.id] = self._into.get(name.id, _NOTHING) | found

    def _parameters(self, node: ast.AST) -> frozenset[str]:
        """The parameters that the value of an expression may point into."""
        if isinstance(node, ast.Name):
            return self._into.get(node.id, _NOTHING)
        if isinstance(node, ast.Call) and getattr(self._value(node.func), "__name__", "") == "load":
            return _NOTHING
        return _NOTHING.union(*(self._parameters(child) for child in ast.iter_child_nodes(node)))

    def _value(self, node: ast.expr) -> Any:
        """What a dotted name means; None for other expressions, and for names of the function."""
        if isinstance(node, ast.Name):
            return None if node.id in self._into else self._names.get(node.id)
        return getattr(self._value(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None
