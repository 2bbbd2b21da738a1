# SPDX-License-Identifier: Apache-2.0
"""Builders: functions that add an operator to the current graph and return its results. They check against Ascend IR
which argument is which input, output and attribute."""

from __future__ import annotations

import difflib
import enum
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import torch

from npugraph.ge import attr, data_types, ir, proto
from npugraph.ge.attr import Attr
from npugraph.ge.const import Const, is_constant, values_of
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import GeGraph, Tensor, control_name, current_graph
from npugraph.ge.ir import Arity, Operand
from npugraph.ge.normalise import UNFED


def ge_op(
    op_type: str, /, *args: Any, dependencies: Sequence[Any] = (), node_name: str | None = None, **named: Any
) -> Any:
    """Adds an operator of Ascend IR. Its arguments are inputs and then attributes, by place or by name, and
    ``size_of_<output>``, the number of tensors of a dynamic output.

    An input is a ``Tensor`` or a constant, of which ``Const`` is made; None for an absent optional one; a list of these
    for a dynamic one. Attributes that are not given get their defaults. The operator runs after ``dependencies``, each
    a ``Tensor`` or an ``OpDef``.

    Returns the result; a tuple if there are several, with a list for each dynamic one; the ``OpDef`` if there are none.
    Raises ``RuntimeError`` for an operator that is not registered and for arguments that do not fit it,
    ``AssertionError`` for a name that is empty or taken."""
    return _add(_bind(_operator_named(op_type), args, named), dependencies, node_name)


def Cast(x: Any, *, dst_type: Any, dependencies: Sequence[Any] = (), node_name: str | None = None) -> Tensor:
    """Adds a conversion of ``x`` to ``dst_type``, a ``DataType``."""
    to = data_types.as_data_type(dst_type)
    result = ge_op("Cast", x, dst_type=to, dependencies=dependencies, node_name=node_name)
    result.desc.dtype = data_types.to_proto(to)
    return result


def Clone(x: Any, *, dependencies: Sequence[Any] = (), node_name: str | None = None) -> Tensor:
    """Adds a copy of ``x`` (the operator ``TensorMove``)."""
    result = ge_op("TensorMove", x, dependencies=dependencies, node_name=node_name)
    result.desc.dtype = result.node.input_desc[0].dtype
    return result


def custom_op(
    op_type: str,
    *args: Any,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str | tuple[str, int]] | None = None,
    attrs: Mapping[str, attr.Attr] | None = None,
    node_name: str | None = None,
) -> Any:
    """Adds an operator, in one of two forms. ``custom_op("Add", x, y)`` is ``ge_op``: the operator is registered, and
    its inputs and attributes come in their order.

    The other form says what the operator has, so it need not be registered; if it is, the call must fit it. Inputs are
    as for ``ge_op``, with a list for a dynamic one. ``outputs`` are names, of dynamic ones with the number of tensors.
    ``attrs`` are of the classes of ``torchair.ge.attr``. An output with the name of an input is that tensor.

    Returns and raises as ``ge_op`` does."""
    if inputs is None and outputs is None and attrs is None:
        return ge_op(op_type, *args, node_name=node_name)
    if args:
        raise RuntimeError(
            f"custom_op({op_type!r}) takes its inputs by place, or inputs=, outputs= and attrs=, but not both; "
            f"got {len(args)} by place"
        )
    made = _explicit_call(op_type, inputs or {}, [_output(op_type, output) for output in outputs or ()], attrs or {})
    return _add(made, (), node_name)


def _output(op_type: str, output: Any) -> tuple[str, int | None]:
    if isinstance(output, str):
        return output, None
    if isinstance(output, tuple) and len(output) == 2 and isinstance(output[0], str) and isinstance(output[1], int):
        return output
    raise RuntimeError(
        f"an output of {op_type} is a name, or a tuple of the name and the number of tensors of a dynamic one, "
        f"got {output!r}"
    )


def _explicit_call(
    op_type: str, inputs: Mapping[str, Any], outputs: Sequence[tuple[str, int | None]], attrs: Mapping[str, attr.Attr]
) -> Call:
    for name, value in attrs.items():
        if not isinstance(value, attr.Attr):
            raise RuntimeError(
                f"attribute {name!r} of {op_type} is a value of torchair.ge.attr, such as attr.Int(1), got {value!r} "
                f"({type(value).__name__})"
            )
    operator = ir.find(op_type)
    if operator is None:
        return Call(op_type, [(_operand(name, value), value) for name, value in inputs.items()], outputs, attrs)
    expected, given = [output.name for output in operator.outputs], [name for name, _ in outputs]
    if given != expected:
        raise RuntimeError(f"outputs of {op_type} are {expected}, got {given}; it is {operator.text}")
    return _checked(operator, inputs, attrs, {name: size for name, size in outputs if size is not None})


def _operand(name: str, value: Any) -> Operand:
    """The input that the value says: a list of tensors is a dynamic one."""
    is_dynamic = isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value)
    return Operand(name, Arity.DYNAMIC if is_dynamic else Arity.OPTIONAL, "ALL")


class TensorType(enum.Enum):
    """Sets of element types, by Ascend's names, that an input of a function may have."""

    TT_ALL = "any"
    TT_UNKNOWN = "unknown"
    TT_BASIC = "numbers and truth values"
    TT_NUMBER = "numbers"
    TT_REAL_NUMBER = "real numbers"
    TT_INTEGER = "integers"
    TT_INDEX_NUMBER = "int32 and int64"
    TT_FLOATING = "floating-point numbers"
    TT_COMPLEX = "complex numbers"
    TT_UNARY = "floating-point and complex numbers"


# What constants become that are not in a set.
_NEAREST = {
    TensorType.TT_FLOATING: DataType.DT_FLOAT,
    TensorType.TT_UNARY: DataType.DT_FLOAT,
    TensorType.TT_COMPLEX: DataType.DT_COMPLEX64,
}


def auto_convert_to_tensor(
    inputs_dynamic: Sequence[bool], inputs_optional: Sequence[bool], *, inputs_tensor_type: Sequence[Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator for functions that add operators: the decorated function takes constants where it took
    tensors. Its first parameters are the inputs of the operator, in the order of both lists, which say whether an
    input is a list of tensors and whether it may be None. ``inputs_tensor_type`` has a ``TensorType`` for each of them;
    integers become floats where only those are allowed. Calls raise ``RuntimeError`` for what is no tensor and no
    constant."""
    types = list(inputs_tensor_type or [TensorType.TT_ALL] * len(inputs_dynamic))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        operands = [
            Operand(name, _arity(is_list, may_be_none), "ALL")
            for name, is_list, may_be_none in zip(signature.parameters, inputs_dynamic, inputs_optional, strict=False)
        ]

        @functools.wraps(function)
        def converted(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            for operand, kind in zip(operands, types, strict=True):
                value = bound.arguments.get(operand.name)
                if operand.name in bound.arguments:
                    _check_input(current_graph(), function.__name__, operand, value)
                    bound.arguments[operand.name] = _of_type(operand, value, kind)
            return function(*bound.args, **bound.kwargs)

        return converted

    return decorate


def _arity(is_dynamic: bool, is_optional: bool) -> Arity:
    return Arity.DYNAMIC if is_dynamic else Arity.OPTIONAL if is_optional else Arity.REQUIRED


def _of_type(operand: Operand, value: Any, kind: TensorType) -> Any:
    if operand.is_dynamic:
        return [_constant_of_type(part, kind) for part in value or ()]
    return None if value is None else _constant_of_type(value, kind)


def _constant_of_type(value: Any, kind: TensorType) -> Tensor:
    if isinstance(value, Tensor):
        return value
    dtype = values_of(value).dtype
    fits = dtype.is_complex or (dtype.is_floating_point and kind is not TensorType.TT_COMPLEX)
    return Const(value, None if fits else _NEAREST.get(kind))


SIZE_OF = "size_of_"  # before the name of a dynamic output: its number of tensors


class Call(NamedTuple):
    """What an ``OpDef`` is made of."""

    op_type: str
    inputs: Sequence[tuple[Operand, Any]]  # a Tensor, a constant, None, or a list of the former two
    outputs: Sequence[tuple[str, int | None]]  # with the number of tensors of a dynamic one
    attrs: Mapping[str, Attr]


def _operator_named(op_type: str) -> ir.Operator:
    operator = ir.find(op_type)
    if operator is None:
        similar = difflib.get_close_matches(op_type, ir.names(), n=3)
        hint = f"; similar names: {', '.join(similar)}" if similar else ""
        raise RuntimeError(
            f"operator {op_type!r} is not registered: Ascend IR has {len(ir.names())} others{hint}. "
            "npugraph.register_prototypes(PATH) makes operators of your own known."
        )
    return operator


def _bind(operator: ir.Operator, args: Sequence[Any], named: Mapping[str, Any]) -> Call:
    """The call with these arguments: inputs, then attributes, by place or by name. A name that both an input and an
    attribute have is the input's, unless that is given already."""
    inputs: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    places = [*((inputs, operand.name) for operand in operator.inputs), *((attrs, a.name) for a in operator.attributes)]
    if len(args) > len(places):
        raise RuntimeError(f"{operator.name} takes {len(places)} arguments, got {len(args)}; it is {operator.text}")
    for (group, name), value in zip(places, args, strict=False):
        group[name] = value
    for name, value in named.items():
        group = next((group for group, place in places if place == name and name not in group), None)
        if group is not None:
            group[name] = value
        elif name.startswith(SIZE_OF):
            sizes[name.removeprefix(SIZE_OF)] = value
        else:
            is_given = name in inputs or name in attrs
            what = "is given twice" if is_given else "is neither an input nor an attribute"
            raise RuntimeError(f"{operator.name}: {name!r} {what}; it is {operator.text}")
    return _checked(operator, inputs, attrs, sizes)


def _checked(
    operator: ir.Operator, inputs: Mapping[str, Any], attrs: Mapping[str, Any], sizes: Mapping[str, Any]
) -> Call:
    """The call with these inputs, attributes and numbers of tensors of dynamic outputs, by name. Inputs are brought
    into the order of the IR, and attributes that are not given get their defaults."""
    for what, given, known in (
        ("input", inputs, operator.inputs),
        ("attribute", attrs, operator.attributes),
        ("dynamic output", sizes, [operand for operand in operator.outputs if operand.is_dynamic]),
    ):
        for name in given:
            if name not in {row.name for row in known}:
                raise RuntimeError(f"{operator.name} has no {what} {name!r}; it is {operator.text}")
    return Call(
        operator.name,
        [(operand, _input(operator, operand, inputs.get(operand.name))) for operand in operator.inputs],
        [(operand.name, _size(operator, operand, sizes)) for operand in operator.outputs],
        {row.name: _attribute(operator, row, attrs) for row in operator.attributes},
    )


def _input(operator: ir.Operator, operand: Operand, value: Any) -> Any:
    if value is None and operand.arity is Arity.REQUIRED:
        raise RuntimeError(f"{operator.name} needs its input {operand.name!r}; it is {operator.text}")
    return value


def _size(operator: ir.Operator, operand: Operand, sizes: Mapping[str, Any]) -> int | None:
    if not operand.is_dynamic:
        return None
    size = sizes.get(operand.name)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise RuntimeError(
            f"{operator.name} needs the number of tensors of its dynamic output {operand.name!r} "
            f"({SIZE_OF}{operand.name}=, in custom_op outputs=[({operand.name!r}, number)]), got {size!r}"
        )
    return size


def _attribute(operator: ir.Operator, row: ir.Attribute, attrs: Mapping[str, Any]) -> Attr:
    if row.name not in attrs and row.is_required:
        raise RuntimeError(f"{operator.name} needs its attribute {row.name!r}; it is {operator.text}")
    value = attrs.get(row.name, row.default)
    if isinstance(value, Attr) and type(value) is not row.kind:
        raise RuntimeError(f"attribute {row.name!r} of {operator.name} is of kind {row.kind.kind}, got {value!r}")
    try:
        return value if isinstance(value, Attr) else row.kind(value)
    except RuntimeError as error:
        raise RuntimeError(f"attribute {row.name!r} of {operator.name}: {error}") from None


def _add(call: Call, dependencies: Iterable[Any] = (), node_name: str | None = None) -> Any:
    """Adds the operator to the current graph, after the constants among its inputs. Returns its results as ``ge_op``
    does."""
    graph = current_graph()
    if node_name is not None:
        graph.checked_name(call.op_type, node_name)
    controls = [control_name(call.op_type, producer) for producer in dependencies]
    for operand, value in call.inputs:
        _check_input(graph, call.op_type, operand, value)
    inputs = [(operand, _with_constants(operand, value)) for operand, value in call.inputs]
    node = graph.add_op(call.op_type, node_name)
    node.input.extend(dict.fromkeys(controls))
    for operand, value in inputs:
        _add_input(node, operand, value)
    for name, attribute in call.attrs.items():
        attribute.write(node.attr[name])
    return _add_outputs(node, call.outputs)


def _check_input(graph: GeGraph, op_type: str, operand: Operand, value: Any) -> None:
    what = f"input {operand.name!r} of {op_type}"
    if operand.is_dynamic and not isinstance(value, (list, tuple, type(None))):
        raise RuntimeError(f"{what} is dynamic, so it takes a list, got {value!r} ({type(value).__name__})")
    for part in value or () if operand.is_dynamic else (value,):
        if isinstance(part, Tensor):
            if not graph.has(part.node.name):
                raise RuntimeError(f"{what} is {part.tensor}, which is not in graph {graph.name!r}")
        elif not is_constant(part) and (part is not None or operand.arity is not Arity.OPTIONAL):
            raise RuntimeError(
                f"{what} takes a torchair.ge.Tensor, a number or a list of numbers, got {part!r} "
                f"({type(part).__name__})"
            )


def _with_constants(operand: Operand, value: Any) -> Any:
    """The same with a ``Const`` for each constant."""
    if operand.is_dynamic:
        return [_as_tensor(operand, part) for part in value or ()]
    return None if value is None else _as_tensor(operand, value)


def _as_tensor(operand: Operand, value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Const(value, _int32_if_int64_is_no_choice(operand, value))


def _int32_if_int64_is_no_choice(operand: Operand, value: Any) -> Any:
    words = re.findall(r"\w+", operand.types.lower().replace("dt_", ""))
    is_choice = "int64" in words or "int32" not in words
    is_array = isinstance(value, (numpy.ndarray, numpy.generic, torch.Tensor))
    return None if is_choice or is_array or values_of(value).dtype != torch.int64 else DataType.DT_INT32


def _add_input(node: Any, operand: Operand, value: Any) -> None:
    if value is None:
        node.input.append("")
        desc = node.input_desc.add(name=operand.name, dtype=proto.DT_UNDEFINED)
        desc.attr[UNFED].i = 1
        return
    tensors = value if operand.is_dynamic else [value]
    for number, tensor in enumerate(tensors):
        node.input.append(tensor.tensor)
        desc = node.input_desc.add()
        desc.CopyFrom(tensor.desc)
        desc.name = f"{operand.name}{number}" if operand.is_dynamic else operand.name


def _add_outputs(node: Any, outputs: Sequence[tuple[str, int | None]]) -> Any:
    results: list[Any] = []
    for name, size in outputs:
        if size is None:
            results.append(_add_output(node, name))
        else:
            results.append([_add_output(node, f"{name}{number}") for number in range(size)])
    return results[0] if len(results) == 1 else tuple(results) if results else node


def _add_output(node: Any, name: str) -> Tensor:
    """An output with the name of an input is that tensor."""
    written = [desc for desc in node.input_desc if desc.name == name and UNFED not in desc.attr]
    node.output_desc.extend(written[:1] or [proto.TensorDescriptor(name=name)])
    return Tensor(node, len(node.output_desc) - 1)
