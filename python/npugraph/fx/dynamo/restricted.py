# SPDX-License-Identifier: Apache-2.0
"""Compiles Python text that may come from a file: paths to values, comparisons of sizes, and the steps that make a
result. It refuses everything else. Text from a file can therefore only use the values that it is given and call a few
named functions and methods."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

_NODES = (
    *(ast.Expression, ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.Expr, ast.Return),
    *(ast.Name, ast.Load, ast.Store, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Call),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.USub, ast.Not, ast.BoolOp, ast.And, ast.Or, ast.Compare),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow),
)
VARIABLE = re.compile(r"\bv\d+\b")
_VALUES = {"L": None, "G": None, "out": None}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (type, dict, list, tuple, set, frozenset, slice, max, min, len, int, float, abs)
}
_METHODS = {
    *("size", "stride", "storage_offset", "items", "keys", "values", "__getitem__"),
    *("clear", "append", "extend", "insert", "update", "add", "__setitem__", "__delitem__"),
}


class Refused(ValueError):
    """The text has a form that is not allowed."""


@functools.lru_cache(maxsize=8192)
def expression(text: str) -> CodeType:
    """Compiles an expression of L (the arguments) and G (modules and global variables), for ``evaluate``. Raises
    ``Refused`` for another form."""
    return compile(_checked(text, "eval", frozenset()), "<cache>", "eval")


def evaluate(text: str, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """Returns the value of an expression. Raises ``Refused`` for another form, and whatever the expression raises."""
    return eval(expression(text), _scope({}), {"L": arguments, "G": variables})  # the form of the text was checked


def function(text: str, helpers: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Returns the function that ``text`` defines. It may call ``helpers``. Raises ``Refused`` for another form."""
    tree = _checked(text, "exec", frozenset(helpers))
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise Refused("text that is not one function")
    scope = _scope(helpers)
    exec(compile(tree, "<cache>", "exec"), scope)  # the form of the text was checked
    return scope[tree.body[0].name]


def _scope(helpers: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    return {"__builtins__": {}, **_FUNCTIONS, **helpers}


def _checked(text: str, mode: str, helpers: frozenset[str]) -> Any:
    try:
        tree = ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Refused(f"{text[:200]!r}: {error}") from None
    for node in ast.walk(tree):
        reason = _objection(node, helpers)
        if reason:
            raise Refused(f"{reason} in {text[:200]!r}")
    return tree


def _objection(node: ast.AST, helpers: frozenset[str]) -> str:
    if not isinstance(node, _NODES):
        return type(node).__name__
    if isinstance(node, ast.FunctionDef) and (node.decorator_list or node.args.defaults or node.args.kw_defaults):
        return "a decorator or default"
    if isinstance(node, ast.Name) and not _is_known(node.id, helpers):
        return f"the name {node.id}"
    if isinstance(node, ast.Call) and not _is_allowed(node.func, helpers):
        return f"a call of {ast.unparse(node.func)}"
    return ""


def _is_known(name: str, helpers: frozenset[str]) -> bool:
    return name in _VALUES or name in _FUNCTIONS or name in helpers or VARIABLE.fullmatch(name) is not None


def _is_allowed(called: ast.expr, helpers: frozenset[str]) -> bool:
    if isinstance(called, ast.Attribute):
        return called.attr in _METHODS
    return isinstance(called, ast.Name) and (called.id in _FUNCTIONS or called.id in helpers)
