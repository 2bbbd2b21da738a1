# SPDX-License-Identifier: Apache-2.0
"""Sizes and types of results as YAML files of Ascend's op-plugin write them: an argument whose size or type it is, or
an expression in C++ over the arguments: ``{x.size(0), y.size(1)}``,
``broadcast_ops_npu_output_size(x, y)``, ``at::kInt``.

An expression is translated once, and then evaluated for the arguments of each call, whose sizes may be symbols."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Values = Mapping[str, Any]  # of the arguments, by name
Evaluate = Callable[[Values], Any]


def size_of(text: str, types: Mapping[str, str]) -> Evaluate:
    """Evaluates to the sizes that ``text`` says. ``types`` are those of the arguments, by name. ``ValueError`` if the
    text is no expression that is known here."""
    if text in types and "Tensor" not in types[text] and "int" not in types[text]:
        raise ValueError(f"the size is that of {text}, which is no tensor and no list of integers")
    evaluate = _translate(_parsed(text), types)
    return lambda values: _sizes(evaluate(values))


def dtype_of(text: str, types: Mapping[str, str]) -> Evaluate:
    """Evaluates to the type that ``text`` says."""
    if constant := re.fullmatch(r"(?:at|c10)::(?:k|ScalarType::)(\w+)", text):
        if constant[1] not in _TYPES:
            raise ValueError(f"the dtype {text} is not known; known are {', '.join(f'at::k{name}' for name in _TYPES)}")
        return lambda values: _TYPES[constant[1]]
    name = text.removesuffix(".scalar_type()")
    if name not in types:
        raise ValueError(f"the dtype {text} is neither an argument ({', '.join(types)}) nor a type such as at::kInt")
    return lambda values: values[name].dtype if isinstance(values[name], torch.Tensor) else values[name]


_TYPES = {
    **{"Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32},
    **{"Long": torch.int64, "Half": torch.float16, "BFloat16": torch.bfloat16, "Float": torch.float32},
    **{"Double": torch.float64, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128},
    **{"Float8_e4m3fn": torch.float8_e4m3fn, "Float8_e5m2": torch.float8_e5m2},
}


def _sizes(value: Any) -> Sequence[int]:
    return value.shape if isinstance(value, torch.Tensor) else value


def _broadcast(*values: Any) -> Sequence[int]:
    return torch.broadcast_shapes(*map(_sizes, values))


def _reduced(value: Any, dims: Sequence[int], keepdim: bool) -> list[int]:
    sizes = _sizes(value)
    removed = {dim % len(sizes) for dim in dims} or set(range(len(sizes)))
    kept = ((1 if dim in removed else size) for dim, size in enumerate(sizes) if keepdim or dim not in removed)
    return list(kept)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "broadcast_ops_npu_output_size": _broadcast,
    "input_same_output_size": _sizes,
    "reduce_ops_npu_output_size": _reduced,
}
_METHODS: dict[str, Callable[..., Any]] = {
    "size": lambda tensor, dim: tensor.shape[dim],
    "sizes": lambda tensor: tensor.shape,
    "dim": lambda tensor: tensor.dim(),
    "numel": lambda tensor: tensor.numel(),
}
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv},
    **{ast.Mod: operator.mod},
}
_CONSTANTS = {"true": True, "false": False}


def _parsed(text: str) -> ast.expr:
    """Lists are written in braces in C++."""
    try:
        return ast.parse(text.replace("op_infer::", "").replace("{", "[").replace("}", "]"), mode="eval").body
    except SyntaxError:
        raise _unknown(text) from None


def _translate(node: ast.expr, types: Mapping[str, str]) -> Evaluate:
    match node:
        case ast.Name(name) if name in types:
            return lambda values: values[name]
        case ast.Name(name) if name in _CONSTANTS:
            return lambda values: _CONSTANTS[name]
        case ast.Constant(int() as number):
            return lambda values: number
        case ast.List(elements):
            parts = [_translate(element, types) for element in elements]
            return lambda values: [part(values) for part in parts]
        case ast.UnaryOp(ast.USub(), operand):
            inner = _translate(operand, types)
            return lambda values: -inner(values)
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            return _called(_OPERATIONS[type(operation)], [left, right], types)
        case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS:
            return _called(_FUNCTIONS[name], arguments, types)
        case ast.Call(ast.Attribute(value, name), arguments, []) if name in _METHODS:
            return _called(_METHODS[name], [value, *arguments], types)
    raise _unknown(ast.unparse(node))


def _called(function: Callable[..., Any], arguments: Sequence[ast.expr], types: Mapping[str, str]) -> Evaluate:
    parts = [_translate(argument, types) for argument in arguments]
    return lambda values: function(*(part(values) for part in parts))


def _unknown(text: str) -> ValueError:
    return ValueError(
        f"the size {text} is not known; a size is an argument, or an expression of integers, of "
        f"{', '.join(f'.{name}()' for name in _METHODS)} of arguments, and of {', '.join(_FUNCTIONS)}"
    )
