# SPDX-License-Identifier: Apache-2.0
"""Calls of builders as text of Python."""

from __future__ import annotations

import base64
import keyword
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from npugraph.ge import attr, const, data_types, ir, proto
from npugraph.ge.builders import SIZE_OF
from npugraph.ge.dumps.text import on_one_line
from npugraph.ge.graph import Tensor
from npugraph.ge.normalise import data_inputs, is_control

_MOST_NUMBERS = 64  # of a constant that is written as numbers although nobody asked for it to be readable


class Results:
    """The expressions by which a script names results of operators that it has made."""

    def __init__(self) -> None:
        self._by_input: dict[str, str] = {}  # by what an OpDef calls them: "Add:0", and "Add:-1" for the operator

    def add(self, op: Any, variable: str, made: Any) -> None:
        """``variable`` holds ``made``, which the call for ``op`` returned."""
        found = dict(_tensors(made, variable))
        for index in range(len(op.output_desc)):
            self._by_input[f"{op.name}:{index}"] = found.get(index, f"Tensor({variable}, {index})")
        self._by_input[f"{op.name}:-1"] = next(iter(found.values()), variable)

    def name(self, source: str) -> str:
        """Raises ``KeyError`` for a result that the script has not made."""
        return "None" if source == "" else self._by_input[source]


def _tensors(made: Any, expression: str) -> Iterator[tuple[int, str]]:
    if isinstance(made, Tensor):
        yield made.index, expression
    elif isinstance(made, (list, tuple)):
        for place, part in enumerate(made):
            yield from _tensors(part, f"{expression}[{place}]")


def calls(op: Any, results: Results) -> Iterator[str]:
    """Calls that may make ``op``, the best first."""
    makers = [_FORMS[op.type]] if op.type in _FORMS else []
    for maker in (*makers, _builder, _custom_op, _bare):
        try:
            yield from maker(op, results)
        except (_NoCallError, KeyError, IndexError, RuntimeError):
            continue  # the operator is not what this maker makes


class _NoCallError(Exception):
    pass


def _input(op: Any, results: Results) -> Iterator[str]:
    desc = op.output_desc[0]
    yield (
        f"ge.{op.type}(index={_attribute(op, 'index').i}, dtype={_type(desc.dtype)}, shape={list(desc.shape.dim)}, "
        f"placement={desc.device_type!r}, node_name={op.name!r})"
    )


def _const(op: Any, results: Results) -> Iterator[str]:
    definition = _attribute(op, "value").t
    values, dtype, is_readable = const.tensor_of(definition), _type(definition.desc.dtype), "_readable_value" in op.attr
    end = f"node_name={op.name!r}" + ("" if is_readable else ", readable=False")
    if (is_readable or values.numel() <= _MOST_NUMBERS) and _are_numbers_enough(values):
        yield f"ge.Const({values.tolist()!r}, dtype={dtype}, {end})"
    data = base64.b64encode(definition.data).decode()
    yield f"ge.Const(from_bytes({data!r}, {dtype}, {list(values.shape)}), {end})"


def _are_numbers_enough(values: torch.Tensor) -> bool:
    """Whether the numbers of a tensor tell its size and its bytes, which those of a NaN do not."""
    again = const.values_of(values.tolist(), data_types.of_torch(values.dtype))
    return const.tensor_def(again) == const.tensor_def(values)


def _net_output(op: Any, results: Results) -> Iterator[str]:
    outputs = ", ".join(results.name(source) for source in data_inputs(op))
    yield f"ge.NetOutput({', '.join([f'[{outputs}]', *_dependencies(op, results)])})"


_FORMS: dict[str, Callable[[Any, Results], Iterator[str]]] = {
    "Data": _input,
    "RefData": _input,
    "Const": _const,
    "NetOutput": _net_output,
}


def _builder(op: Any, results: Results) -> Iterator[str]:
    """The builder that Ascend IR says."""
    operator = ir.find(op.type)
    if operator is None or op.type in _FORMS:
        raise _NoCallError
    sources = [results.name(source) for source in data_inputs(op)]
    arguments = []
    for operand, size in _shares(operator.inputs, op.input_desc):
        arguments.append(f"[{', '.join(sources[:size])}]" if operand.is_dynamic else sources[0])
        sources = sources[size:]
    arguments += [
        f"{row.name}={text}" if not keyword.iskeyword(row.name) else f"**{{{row.name!r}: {text}}}"
        for row in operator.attributes
        if row.name in op.attr and (text := _value(op.attr[row.name])) is not None
    ]
    arguments += [
        f"{SIZE_OF}{output.name}={size}"
        for output, size in _shares(operator.outputs, op.output_desc)
        if output.is_dynamic
    ]
    yield f"ge.{op.type}({', '.join([*arguments, *_dependencies(op, results), f'node_name={op.name!r}'])})"


def _shares(operands: Sequence[ir.Operand], descs: Sequence[Any]) -> Iterator[tuple[ir.Operand, int]]:
    """How many of the descriptors belong to each operand, as their names tell."""
    names = [desc.name for desc in descs]
    for operand in operands:
        size = 1
        if operand.is_dynamic:
            size = next(n for n in range(len(names) + 1) if names[n : n + 1] != [f"{operand.name}{n}"])
        elif names[:1] != [operand.name]:
            raise _NoCallError
        yield operand, size
        names = names[size:]
    if names:
        raise _NoCallError


def _custom_op(op: Any, results: Results) -> Iterator[str]:
    """An operator that says itself what it has. Each tensor of a dynamic input is one of its own."""
    inputs = zip([desc.name for desc in op.input_desc], map(results.name, data_inputs(op)), strict=False)
    outputs = [desc.name for desc in op.output_desc]
    attrs = ((name, attr.read(op.attr[name])) for name in sorted(op.attr))
    attrs_text = ", ".join(
        f"{name!r}: attr.{type(value).__name__}({_text(value.value)})"
        for name, value in attrs
        if type(value).__name__ in attr.__all__
    )
    inputs_text = ", ".join(f"{name!r}: {expression}" for name, expression in inputs)
    yield (
        f"custom_op({op.type!r}, inputs={{{inputs_text}}}, outputs={outputs}, attrs={{{attrs_text}}}, "
        f"node_name={op.name!r})"
    )


def _bare(op: Any, results: Results) -> Iterator[str]:
    yield f"graph.add_op({op.type!r}, {op.name!r})"


def _dependencies(op: Any, results: Results) -> list[str]:
    controls = [results.name(source) for source in op.input if is_control(source)]
    return [f"dependencies=[{', '.join(controls)}]"] if controls else []


def _attribute(op: Any, name: str) -> Any:
    if name not in op.attr:  # reading it would add it
        raise _NoCallError
    return op.attr[name]


def _type(number: int) -> str:
    return f"DataType.{data_types.of_proto(number).name}"


def _value(attribute: Any) -> str | None:
    """The value as Python; None if no class of torchair.ge.attr holds it."""
    value = attr.read(attribute)
    return None if value is None else _text(value.value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, proto.TensorDef):
        return f"tensor_def({on_one_line(value)!r})"
    return f"DataType.{value.name}" if isinstance(value, data_types.DataType) else repr(value)
