# SPDX-License-Identifier: Apache-2.0
"""Operators that are given by what they mean, in place of a kernel."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from npugraph.operator_steps.code import parameters_of

_Function = TypeVar("_Function", bound=Callable[..., Any])

# What an expression may call: functions of torch that work element by element.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(torch, name)
    for name in (
        *("abs", "ceil", "clamp", "cos", "cosh", "erf", "exp", "expm1", "floor", "log", "log1p", "log2", "maximum"),
        *("minimum", "pow", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        *("where", "acos", "asin", "atan", "atan2", "fmod", "isnan", "isinf", "reciprocal"),
    )
}
CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf}
# Parts of expressions, besides calls, names and constants.
_ALLOWED = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop, ast.Load, ast.Tuple)
_COMPOSITE = "CompositeImplicitAutograd"


def define_operator(schema: str, meaning: str | None = None) -> Any:
    """Defines an operator by other operators. Graphs have these in its place, so that it is generated, fused with its
    neighbours and differentiated like the operators of torch, by all backends; it needs no other step.

    ``schema`` is ``"ns::name(arguments) -> results"``. ``meaning`` is an expression of the arguments, which is computed
    element by element, such as ``"x / (1 + exp(-beta * x))"``; several results are separated by commas. Without
    ``meaning`` the function that is decorated says it, with any operators of torch::

        @npugraph.define_operator("my_ops::swish(Tensor x, float beta=1.0) -> Tensor")
        def swish(x, beta=1.0):
            return x * torch.sigmoid(beta * x)

    Returns the operator for an expression, and else a decorator, which returns the function. Raises ``ValueError`` for
    text that is no schema, if torch knows the operator already, and for an expression that is not allowed."""
    try:
        parsed = torch._C.parse_schema(schema)
        function = None if meaning is None else _function_of(parsed, meaning)
        torch.library.define(parsed.name, schema[schema.index("(") :])
    except RuntimeError as error:
        raise ValueError(f"the operator {schema!r}: {error}") from None

    def register(given: _Function) -> _Function:
        torch.library.impl(parsed.name, _COMPOSITE)(given)
        return given

    if function is None:
        return register
    register(function)
    namespace, name = parsed.name.split("::")
    return getattr(getattr(torch.ops, namespace), name)


def _function_of(schema: Any, meaning: str) -> Callable[..., Any]:
    """The function of the arguments of ``schema`` that computes the expression."""
    arguments = [argument.name for argument in schema.arguments]
    try:
        tree = ast.parse(meaning.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"the meaning of {schema.name} is no expression: {meaning!r}: {error.msg}") from None
    for node in ast.walk(tree.body):
        if reason := _refusal(node, arguments):
            raise ValueError(f"the meaning of {schema.name}, {meaning!r}: {reason}")
    results = len(tree.body.elts) if isinstance(tree.body, ast.Tuple) else 1
    if results != len(schema.returns):
        raise ValueError(
            f"the meaning of {schema.name}, {meaning!r}, has {results} results, and the schema has "
            f"{len(schema.returns)}"
        )
    parameters = ast.parse(f"lambda {', '.join(parameters_of(schema))}: 0", mode="eval")
    assert isinstance(parameters.body, ast.Lambda)
    parameters.body.body = tree.body
    return eval(compile(parameters, f"<{schema.name}>", "eval"), FUNCTIONS | CONSTANTS)


def _refusal(node: ast.AST, arguments: list[str]) -> str:
    """Why a part of an expression is not allowed; "" if it is."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            return f"{ast.unparse(node)!r} is no call of {', '.join(sorted(FUNCTIONS))}"
    elif isinstance(node, ast.Name):
        if node.id not in (*arguments, *FUNCTIONS, *CONSTANTS):
            return f"{node.id!r} is neither an argument ({', '.join(arguments)}) nor one of {', '.join(CONSTANTS)}"
    elif isinstance(node, ast.Constant):
        if type(node.value) not in (bool, int, float):
            return f"{node.value!r} is no number"
    elif isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            return f"{ast.unparse(node)!r} compares more than two values"
    elif not isinstance(node, _ALLOWED):
        return f"{ast.unparse(node)!r} is not allowed; there are arithmetic, comparisons and calls of functions"
    return ""
