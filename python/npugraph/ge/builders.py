# SPDX-License-Identifier: Apache-2.0
"""Builders: functions that add an operator to the current graph and return its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npugraph.ge import attr, calls, data_types, ir
from npugraph.ge.graph import control_name, current_graph
from npugraph.ge.ir import Arity, Operand
from npugraph.ge.tensor import Tensor, TensorSpec, dims_of


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
    return calls.add(calls.bind(calls.operator_named(op_type), args, named), dependencies, node_name)


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
    return calls.add(made, (), node_name)


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
) -> calls.Call:
    for name, value in attrs.items():
        if not isinstance(value, attr.Attr):
            raise RuntimeError(
                f"attribute {name!r} of {op_type} is a value of torchair.ge.attr, such as attr.Int(1), got {value!r} "
                f"({type(value).__name__})"
            )
    operator = ir.find(op_type)
    if operator is None:
        return calls.Call(op_type, [(_operand(name, value), value) for name, value in inputs.items()], outputs, attrs)
    expected, given = [output.name for output in operator.outputs], [name for name, _ in outputs]
    if given != expected:
        raise RuntimeError(f"outputs of {op_type} are {expected}, got {given}; it is {operator.text}")
    return calls.checked(operator, inputs, attrs, {name: size for name, size in outputs if size is not None})


def _operand(name: str, value: Any) -> Operand:
    """The input that the value says: a list of tensors is a dynamic one."""
    is_dynamic = isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value)
    return Operand(name, Arity.DYNAMIC if is_dynamic else Arity.OPTIONAL, "ALL")


_PLACEMENTS = ("NPU", "CPU")


def Data(
    *, index: int, dtype: Any, shape: Sequence[Any], placement: str = "NPU", node_name: str | None = None
) -> Tensor:
    """Adds input ``index`` of the current graph. ``dtype`` is a ``DataType``. A size that is no int is unknown, as -1
    is; [-2] is an unknown rank. ``placement`` is where the engine finds the tensor: NPU, or CPU for the host."""
    return _input("Data", index, dtype, shape, placement, node_name)


def RefData(
    *, index: int, dtype: Any, shape: Sequence[Any], placement: str = "NPU", node_name: str | None = None
) -> Tensor:
    """Adds input ``index`` of the current graph, which the graph may write."""
    return _input("RefData", index, dtype, shape, placement, node_name)


def NetOutput(
    outputs: Sequence[Tensor], specs: Sequence[TensorSpec] | None = None, *, dependencies: Sequence[Any] = ()
) -> Any:
    """Adds the end of the current graph, with its outputs in order, and returns the ``OpDef``. ``specs`` say what FX
    knows of each output. ``dependencies`` run although no output needs them."""
    if specs is not None and len(specs) != len(outputs):
        raise RuntimeError(f"a graph has one spec for each of its {len(outputs)} outputs, got {len(specs)}")
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"output {number} of a graph is a torchair.ge.Tensor, got {output!r} ({type(output).__name__})"
            )
    controls = [control_name("NetOutput", producer) for producer in dependencies]
    node = current_graph().add_op("NetOutput", "NetOutput")
    node.input.extend(dict.fromkeys(controls))
    for number, output in enumerate(outputs):
        node.input.append(output.tensor)
        desc = node.input_desc.add()
        desc.CopyFrom(output.desc)
        desc.name = f"input{number}"
        if specs is not None:
            desc.dtype = data_types.to_proto(specs[number].dtype)
            desc.shape.dim[:] = dims_of(specs[number].size)
    return node


def _input(op_type: str, index: int, dtype: Any, shape: Sequence[Any], placement: str, node_name: str | None) -> Tensor:
    if placement not in _PLACEMENTS:
        raise RuntimeError(f"the placement of an input of a graph is {' or '.join(_PLACEMENTS)}, got {placement!r}")
    wire = data_types.to_proto(dtype)
    dims = dims_of(shape)
    node = current_graph().add_op(op_type, node_name)
    node.attr["index"].i = index
    for name, descs in (("x", node.input_desc), ("y", node.output_desc)):
        desc = descs.add(name=name, dtype=wire, layout="ND", device_type=placement)
        desc.shape.SetInParent()
        desc.shape.dim.extend(dims)
    return Tensor(node, 0, None if dims == [-2] else shape)
