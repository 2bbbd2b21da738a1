# SPDX-License-Identifier: Apache-2.0
"""The converter of operators that have a kernel in a library of the user: one operator of Ascend IR, whose inputs,
attributes and outputs follow from the schema."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from npugraph import _C
from npugraph.fx.schema import arguments_by_name, written_arguments
from npugraph.ge import attr, ir
from npugraph.ge.builders import custom_op
from npugraph.ge.converters.registry import Converter
from npugraph.ge.converters.values import Number, known
from npugraph.ge.tensor import Tensor


def kernel_name(target: Any) -> str:
    """The name under which libraries have a kernel of an FX target, "my_ops.scaled_add"; "" if none has one."""
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    name = target.name().replace("::", ".")
    return name if _C.library_of(name) else ""


def converter(target: Any) -> Converter | None:
    """A converter of ``target`` to the operator that its kernel computes; None if it has no kernel."""
    return functools.partial(_convert, target) if kernel_name(target) else None


def _convert(target: Any, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    """An argument that is written is an input, and an output of the same name. Returns the other outputs."""
    given = arguments_by_name(target, args, kwargs)
    inputs: dict[str, Any] = {}
    attrs: dict[str, attr.Attr] = {}
    for argument in target._schema.arguments:
        value = given.get(argument.name, argument.default_value)
        if "Tensor" in str(argument.type):
            inputs[argument.name] = _tensors(argument.name, value)
        elif value is not None:
            attrs[argument.name] = _attribute(argument, known(argument.name, value))
        elif argument.default_value is not None:
            raise NotImplementedError(f"its argument {argument.name} is None, which is not the default")
    written = written_arguments(target)
    results = _names_of_results(target, inputs)
    made = custom_op(_op_type(target), inputs=inputs, outputs=[*written, *results], attrs=attrs)
    if not results:
        return None
    new = list(made if isinstance(made, tuple) else [made])[len(written) :]
    return new if len(new) > 1 else new[0]


def _op_type(target: Any) -> str:
    """The name of the operator in Ascend IR, with the namespace in front if another operator has that name there."""
    name = kernel_name(target)
    op_type = _C.ir_name(name)
    return op_type if ir.find(op_type) is None else _C.ir_name(f"{target.namespace}.{name.replace('.', '_', 1)}")


def _tensors(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(isinstance(part, Tensor) for part in value):
        return list(value)
    if value is None or (isinstance(value, Tensor) and not isinstance(value, Number)):
        return value
    raise NotImplementedError(f"its argument {name} is {value!r}, and the operator takes tensors there")


def _attribute(argument: Any, value: Any) -> attr.Attr:
    text = str(argument.real_type)
    kind = _KINDS.get(text[len("Optional[") : -1] if text.startswith("Optional[") else text)
    if kind is None:
        raise NotImplementedError(f"no attribute of Ascend IR has the type of its argument {argument.name}")
    return kind(value)


def _number(value: Any) -> attr.Attr:
    kind = attr.Bool if isinstance(value, bool) else attr.Int if isinstance(value, int) else attr.Float
    return kind(value)


# By the texts of types.
_KINDS: dict[str, Callable[[Any], attr.Attr]] = {
    "int": attr.Int,
    "SymInt": attr.Int,
    "float": attr.Float,
    "number": _number,
    "bool": attr.Bool,
    "str": attr.Str,
    "ScalarType": attr.DataType,
    "List[int]": attr.ListInt,
    "List[SymInt]": attr.ListInt,
    "List[float]": attr.ListFloat,
}


def _names_of_results(target: Any, inputs: dict[str, Any]) -> list[str]:
    """Names for new tensors that no input has, because an output with the name of an input is that input."""
    count = sum(result.alias_info is None for result in target._schema.returns)
    names = ["y"] if count == 1 else [f"y{place}" for place in range(count)]
    return [f"result_{name}" if name in inputs else name for name in names]
