# SPDX-License-Identifier: Apache-2.0
"""Converters of operators of users that have none of their own. A call becomes one operator of Ascend IR, which the
engine computes by the user's operator: by its kernel in a library, or by torch.

Inputs, attributes and outputs follow from the schema if a library has a kernel, and otherwise from the operator of
Ascend IR that has the same name. The user makes that one known (``npugraph.register_prototypes``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from npugraph import _C
from npugraph.fx.schema import (
    arguments_by_name,
    attribute_kind,
    core_name,
    is_of_user,
    is_tensor,
    names_of_results,
    new_results,
    written_arguments,
)
from npugraph.ge import apis as ge
from npugraph.ge import attr, ir
from npugraph.ge.builders import custom_op
from npugraph.ge.converters.registry import Converter
from npugraph.ge.converters.values import Number, Numbers, is_attribute, known
from npugraph.ge.graph import Tensor
from npugraph.ge.ir import Arity, Operand
from npugraph.ge.normalise import data_inputs

# Types of arguments that say where and how a result lies in memory.
_OF_MEMORY = frozenset(f"Optional[{name}]" for name in ("Layout", "Device", "MemoryFormat"))
# The attribute by which an operator of Ascend IR names the user's operator that computes it
# (src/core/ge/import/inputs.h).
OPERATOR = "_npugraph_operator"
# Those by which it says which of its inputs and outputs are arguments and results, and the values of other arguments.
ARGUMENTS, ARGUMENT, RESULTS = "_npugraph_arguments", "_npugraph_argument.", "_npugraph_results"


def converter(target: Any) -> Converter | None:
    """A converter of ``target``; None if ``why_none`` says why it has none."""
    if why_none(target):
        return None
    convert = _by_schema if _C.library_of(core_name(target)) else _by_prototype
    return functools.partial(convert, target)


def why_none(target: Any) -> str:
    """Why an operator has no converter that follows from its name; "" if it has one."""
    if not isinstance(target, torch._ops.OpOverload):
        return "it is no OpOverload, so that it has no schema from which a converter could follow"
    if not is_of_user(target):
        return f"operators of the namespace {target.namespace} have converters of their own or none"
    if _C.library_of(core_name(target)):
        return ""
    op_type = _C.ir_name(core_name(target))
    operator = ir.find(op_type)
    if operator is None:
        return f"Ascend IR has no operator {op_type}, and npugraph.register_prototypes has not added one"
    return _difference(target, operator)


def _named(arguments: Sequence[Any], rows: Sequence[Any]) -> dict[str, Any]:
    """From the names of arguments to inputs or attributes of Ascend IR: those of the same names if all have them, else
    in their order."""
    by_name = {row.name: row for row in rows}
    names = [argument.name for argument in arguments]
    if by_name.keys() == set(names):
        return {name: by_name[name] for name in names}
    return dict(zip(names, rows, strict=True))


def _difference(target: Any, operator: ir.Operator) -> str:
    """How an operator of Ascend IR differs from the schema of ``target``; "" if it has the schema's inputs, attributes
    and outputs. The operator may write more inputs than the schema: it gets copies of these."""
    tensors = [argument for argument in target._schema.arguments if is_tensor(argument)]
    others = [argument for argument in target._schema.arguments if not is_tensor(argument)]
    reason = ""
    if len(tensors) != len(operator.inputs):
        reason = f"it has {len(tensors)} tensors as arguments, and {operator.name} has {len(operator.inputs)} inputs"
    elif len(others) != len(operator.attributes):
        reason = f"it has {len(others)} other arguments, and {operator.name} has {len(operator.attributes)} attributes"
    else:
        inputs, attributes = _named(tensors, operator.inputs), _named(others, operator.attributes)
        reason = _crossing(inputs) or _crossing(attributes) or _difference_of_lists(tensors, inputs)
        reason = reason or _difference_of_results(target, operator, inputs)
    return f"{reason}: {operator.text}" if reason else ""


def _crossing(rows: dict[str, Any]) -> str:
    for name, row in rows.items():
        if name != row.name and row.name in rows:
            return f"by its place its argument {name} is {row.name}, which is the name of another argument"
    return ""


def _difference_of_lists(tensors: Sequence[Any], inputs: dict[str, Operand]) -> str:
    for argument in tensors:
        if ("List[" in str(argument.type)) != inputs[argument.name].is_dynamic:
            return f"only one of its argument {argument.name} and the input {inputs[argument.name].name} is a list"
    return ""


def _difference_of_results(target: Any, operator: ir.Operator, inputs: dict[str, Operand]) -> str:
    outputs = [output.name for output in operator.outputs]
    written, fresh = written_arguments(target), len(new_results(target))
    lists = {inputs[name].name for name in written if inputs[name].is_dynamic}
    if any(output.is_dynamic and output.name not in lists for output in operator.outputs):
        return "it has an output with any number of tensors"
    for name in written:
        if inputs[name].name not in outputs:
            return f"the operator writes its argument {name}, and no output has the name {inputs[name].name}"
        if inputs[name].is_dynamic and not operator.outputs[outputs.index(inputs[name].name)].is_dynamic:
            return f"the operator writes the tensors of its argument {name}, and the output of that name is one tensor"
    if len(outputs) != fresh + len(written):
        return f"the operator makes {fresh} tensors and writes {len(written)}, and it has {len(outputs)} outputs"
    return ""


def _by_schema(target: Any, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    """An argument that is written is an input, and an output of the same name. Returns the other outputs."""
    given = arguments_by_name(target, args, kwargs)
    inputs: dict[str, Any] = {}
    attrs: dict[str, attr.Attr] = {}
    for argument in target._schema.arguments:
        value = given.get(argument.name, argument.default_value)
        if is_tensor(argument):
            inputs[argument.name] = _tensors(argument.name, value)
        elif value is not None:
            attrs[argument.name] = _attribute(argument, known(argument.name, value))
        elif argument.default_value is not None:
            raise NotImplementedError(f"its argument {argument.name} is None, which is not the default")
    written = [name for name in written_arguments(target) if inputs[name] is not None]
    outputs = [*(_output(name, inputs[name]) for name in written), *names_of_results(target)]
    made = custom_op(_op_type(target), inputs=inputs, outputs=outputs, attrs=attrs)
    results = list(made if isinstance(made, tuple) else [made])
    return _results(target, results[len(written) :])


def _by_prototype(target: Any, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    """Inputs and attributes by their places. Where the IR writes an input and the schema does not, it writes a copy."""
    operator = ir.find(_C.ir_name(core_name(target)))
    assert operator is not None
    given = arguments_by_name(target, args, kwargs)
    written = written_arguments(target)
    outputs = [output.name for output in operator.outputs]
    inputs: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    arguments = target._schema.arguments
    operands = _named([argument for argument in arguments if is_tensor(argument)], operator.inputs)
    rows = _named([argument for argument in arguments if not is_tensor(argument)], operator.attributes)
    for argument in arguments:
        value = given.get(argument.name, argument.default_value)
        if is_tensor(argument):
            operand = operands[argument.name]
            is_copied = operand.name in outputs and argument.name not in written
            inputs[operand.name] = _operand(operand, _tensors(argument.name, value), is_copied)
        elif value is not None:
            row = rows[argument.name]
            attrs[row.name] = _value_of(row, argument.name, known(argument.name, value))
    made_as = [_output(name, inputs.get(name)) for name in outputs]
    made = custom_op(operator.name, inputs=inputs, outputs=made_as, attrs=attrs)
    _compute_by(target, made, given)
    results = made if isinstance(made, tuple) else (made,)
    in_place = [operands[name].name for name in written]
    return _results(target, [made for name, made in zip(outputs, results, strict=True) if name not in in_place])


def _value_of(row: ir.Attribute, name: str, value: Any) -> attr.Attr:
    try:
        return row.kind(value)
    except RuntimeError as error:
        raise NotImplementedError(f"its argument {name} cannot be the attribute {row.name}: {error}") from None


def _operand(operand: Operand, value: Any, is_copied: bool) -> Any:
    if value is None and operand.arity is Arity.REQUIRED:
        raise NotImplementedError(f"its input {operand.name} is absent, which Ascend IR does not allow")
    if not is_copied or value is None:
        return value
    return [ge.TensorMove(part) for part in value] if isinstance(value, list) else ge.TensorMove(value)


def _output(name: str, value: Any) -> str | tuple[str, int]:
    """An output of a call; ``value`` is the input of that name, which is written if there is one."""
    if value == []:
        raise NotImplementedError(f"its argument {name}, which it writes, is a list without tensors")
    return (name, len(value)) if isinstance(value, list) else name


def _results(target: Any, new: Sequence[Any]) -> Any:
    """The new tensors of a call as a converter returns them."""
    if not target._schema.returns:
        return None
    return list(new) if len(new) > 1 else new[0]


def name_operator(target: Any, made: Sequence[Any], given: dict[str, Any], results: Sequence[Any]) -> None:
    """Says that the user's operator ``target`` computes the one among the operators ``made``, which a converter added,
    that the engine cannot compute. ``given`` are the arguments of the call by name, ``results`` is what the converter
    returned. Raises ``NotImplementedError`` if there are several, or if arguments or results are in other places."""
    others = [op for op in made if op.type not in ir.computed_types() and OPERATOR not in op.attr]
    if len(others) > 1:
        types = ", ".join(op.type for op in others)
        raise NotImplementedError(f"its converter adds {types}, and the engine computes none of these")
    for op in others:
        _check_places(target, op, given, results)
        _compute_by(target, Tensor(op), given)


def call_host(target: Any, op: Any, given: Mapping[str, Any], results: Sequence[Any]) -> None:
    """Says that the host's operator ``target`` computes ``op``, an operator of Ascend IR that has other inputs,
    attributes and outputs than the schema. ``given`` are the arguments of the call by name, ``results`` the new
    tensors that it returns. Raises ``NotImplementedError`` if an argument is no input of ``op``, or a result none of
    its outputs."""
    inputs, arguments = data_inputs(op), [""] * len(op.input_desc)
    for argument in target._schema.arguments:
        value = given.get(argument.name)
        if not is_tensor(argument) and not isinstance(value, Numbers):
            if value is not None:
                _exactly(argument, known(argument.name, value)).write(op.attr[f"{ARGUMENT}{argument.name}"])
            continue
        for leaf in (leaf for leaf in pytree.tree_leaves(value) if leaf is not None):
            places = [i for i, name in enumerate(inputs) if name == leaf.tensor and not arguments[i]]
            if not places:
                raise NotImplementedError(f"its argument {argument.name} is no input of {op.type}")
            of_name = (i for i in places if _stem(op.input_desc[i].name, given) == argument.name)
            arguments[next(of_name, places[0])] = argument.name
    if any(not isinstance(result, Tensor) or result.node.name != op.name for result in results):
        raise NotImplementedError(f"one of its results is no output of {op.type}")
    attr.ListStr(arguments).write(op.attr[ARGUMENTS])
    attr.ListInt([result.index for result in results]).write(op.attr[RESULTS])
    op.attr[OPERATOR].s = core_name(target).encode()


def of_host(target: Any, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    """Adds a call of an operator of the host that Ascend IR does not have. It stands among the parts of others."""
    given = arguments_by_name(target, args, kwargs)
    inputs = {}
    for argument in target._schema.arguments:
        value = given.get(argument.name)
        if isinstance(value, Numbers) or (is_tensor(argument) and value is not None):
            inputs[argument.name] = value
        elif str(argument.real_type) in _OF_MEMORY:
            given.pop(argument.name, None)
    made = custom_op(_op_type(target), inputs=inputs, outputs=names_of_results(target))
    results = made if isinstance(made, tuple) else (made,)
    call_host(target, results[0].node, given, results)
    if not isinstance(meta_outputs, list):
        return made
    return [None if spec is None else result for result, spec in zip(results, meta_outputs, strict=True)]


def _compute_by(target: Any, made: Any, given: dict[str, Any]) -> None:
    """Names the operator, and adds those of its arguments that the IR does not have as attributes of their names."""
    op = pytree.tree_leaves(made)[0].node
    for argument in target._schema.arguments:
        if not is_tensor(argument) and argument.name in given and argument.name not in op.attr:
            value = given[argument.name]
            if value is not None:
                _attribute(argument, known(argument.name, value)).write(op.attr[argument.name])
    op.attr[OPERATOR].s = core_name(target).encode()


def _op_type(target: Any) -> str:
    """The name of the operator in Ascend IR, with the namespace in front if another operator has that name there."""
    name = core_name(target)
    op_type = _C.ir_name(name)
    return op_type if ir.find(op_type) is None else _C.ir_name(f"{target.namespace}.{name.replace('.', '_', 1)}")


def _tensors(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(isinstance(part, Tensor) for part in value):
        return list(value)
    if value is None or (isinstance(value, Tensor) and not isinstance(value, Number)):
        return value
    raise NotImplementedError(f"its argument {name} is {value!r}, and the operator takes tensors there")


def _attribute(argument: Any, value: Any) -> attr.Attr:
    kind = attribute_kind(argument)
    if not kind:
        raise NotImplementedError(f"no attribute of Ascend IR has the type of its argument {argument.name}")
    if kind == "Number":
        kind = "Bool" if isinstance(value, bool) else "Int" if isinstance(value, int) else "Float"
    return getattr(attr, kind)(value)


def _exactly(argument: Any, value: Any) -> attr.Attr:
    """As ``_attribute``, but a float that an attribute rounds is a text."""
    made = _attribute(argument, value)
    return attr.Str(repr(value)) if isinstance(made, attr.Float) and not is_attribute(value) else made


def _check_places(target: Any, op: Any, given: Mapping[str, Any], results: Sequence[Any]) -> None:
    """Raises ``NotImplementedError`` if the operator ``op`` of Ascend IR has arguments or results of the user's
    operator ``target`` in other places than that. ``given`` are the arguments of the call by name, ``results`` is what
    the converter returned. The engine gives the inputs to the arguments of their names, or by their places if the names
    are others, and takes the results in their order. In another order it would compute wrong values."""
    arguments = [argument for argument in target._schema.arguments if is_tensor(argument)]
    tensors = {a.name: _names(given.get(a.name, a.default_value)) for a in arguments}
    if not {_stem(desc.name, tensors) for desc in op.input_desc} <= tensors.keys():
        in_order = [name for names in tensors.values() for name in names]
        inputs = [name for name in op.input if name]
        if any(name != wanted and name in in_order for name, wanted in zip(inputs, in_order, strict=False)):
            raise NotImplementedError(
                f"its converter gives {op.type} the arguments in another order than {target.name()} has them, so "
                f"that operator cannot compute it; name the inputs as the arguments: {', '.join(tensors)}"
            )
    written = {desc.name for desc in op.input_desc}
    new = [place for place, desc in enumerate(op.output_desc) if desc.name not in written]
    for result, place in zip(results, new, strict=False):
        if isinstance(result, Tensor) and result.node.name == op.name and result.index != place:
            raise NotImplementedError(
                f"its converter returns the outputs of {op.type} in another order than {op.type} has them, so that "
                f"{target.name()} cannot compute it"
            )


def _names(value: Any) -> list[str]:
    return [leaf.tensor for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _stem(name: str, arguments: Mapping[str, Any]) -> str:
    """The argument of which an input has the name; parts of a list are called x0, x1, ..."""
    return name if name in arguments else name.rstrip("0123456789")
