# SPDX-License-Identifier: Apache-2.0
"""Converters that are one call of an operator of Ascend IR, as text:

    aten.eq.Scalar: Equal x1=self~ x2=other~

names the target, the operator, and for each of its inputs and attributes where the value comes from:

- ``self``: an argument of the target. An argument that the call leaves out has the default of the target's schema.
- ``self^``: the same, converted to the element type of the result. Numbers become constants of that type.
- ``self^^``: as ``^``, but if the result is of a half type that cannot hold the number as it is, the operator
  computes in float32, and its result is converted. Torch's kernels compute with the exact number, too.
- ``self~``: the same, converted to the type to which torch promotes all operands with this mark. For comparisons.
- ``[dim]``: a list with this argument.
- ``0``, ``True``, ``'none'``, ``[0]``: a constant, which may have a mark.
- ``meta_outputs.dtype``: the element type of the result.

``*`` stands for all inputs and attributes that have the name of an argument of the target and no other source. ``>y``
says that the output ``y`` is the next result; without such words, outputs are the results in their order.

``-padding_idx`` says that an argument does not change the result. A call that gives any other argument which the row
does not name, with another value than the schema's default, is not converted."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from npugraph.ge import attr, ir
from npugraph.ge.builders import ge_op
from npugraph.ge.converters import part_functions, registry
from npugraph.ge.converters.values import as_attributes, cast, common_type, integers, is_exact, known, operand
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

# Arguments that say where and how the result lies in memory.
_OF_MEMORY = frozenset(("layout", "device", "pin_memory", "non_blocking", "memory_format"))
RESULT_TYPE = "meta_outputs.dtype"
_MARKS = ("^^", "^", "~")
_ROW = re.compile(r"([\w.]+): (\w+)((?: \S+)*)")
_NAME = re.compile(r"[A-Za-z_]\w*")


class Source(NamedTuple):
    """Where the value of an input or an attribute comes from: the argument ``name``, or a constant."""

    name: str
    value: Any
    mark: str
    is_list: bool


class Row(NamedTuple):
    target: str
    op_type: str
    sources: tuple[tuple[str, Source], ...]  # by the name of the input or attribute
    ignored: frozenset[str]
    results: tuple[str, ...]  # outputs; all of them in their order if it is empty
    text: str


def parse(text: str) -> Row:
    """Reads a row. Raises ``ValueError`` for malformed text and for what the operator does not have."""
    match = _ROW.fullmatch(text)
    if match is None:
        raise ValueError(
            f"a row of the table of converters is written as target: Operator name=source ..., got {text!r}"
        )
    target, op_type, rest = match.groups()
    operator = ir.find(op_type)
    if operator is None:
        raise ValueError(f"{text!r}: Ascend IR has no operator {op_type!r}")
    words = rest.split()
    sources = tuple(_source(text, operator, word) for word in words if word[0] not in "-*>")
    if "*" in words:
        sources += _of_same_names(target, operator, {name for name, _ in sources})
    results = tuple(word[1:] for word in words if word.startswith(">"))
    given = [name for name, _ in sources]
    needed = [x.name for x in operator.inputs if x.arity is ir.Arity.REQUIRED]
    needed += [x.name for x in operator.attributes if x.is_required]
    for name in needed:
        if name not in given:
            raise ValueError(f"{text!r}: {op_type} needs {name!r}; it is {operator.text}")
    if len(set(given)) < len(given):
        raise ValueError(f"{text!r}: it names an input or an attribute twice")
    if unknown := set(results) - {x.name for x in operator.outputs}:
        raise ValueError(f"{text!r}: {op_type} has no output {min(unknown)!r}; it is {operator.text}")
    return Row(target, op_type, sources, frozenset(word[1:] for word in words if word.startswith("-")), results, text)


def _of_same_names(target: str, operator: ir.Operator, taken: Container[str]) -> tuple[tuple[str, Source], ...]:
    schema = schema_of(target)
    arguments = {x.name for x in schema.arguments} if schema else set()
    names = [x.name for x in (*operator.inputs, *operator.attributes) if x.name in arguments and x.name not in taken]
    return tuple((name, Source(name, None, "", False)) for name in names)


def _source(text: str, operator: ir.Operator, word: str) -> tuple[str, Source]:
    name, equals, value = word.partition("=")
    is_input = name in {x.name for x in operator.inputs}
    if not equals or not (is_input or name in {x.name for x in operator.attributes}):
        raise ValueError(f"{text!r}: {word!r} names no input and no attribute; {operator.name} is {operator.text}")
    mark = next((mark for mark in _MARKS if value.endswith(mark)), "")
    value = value.removesuffix(mark)
    if mark and not is_input:
        raise ValueError(f"{text!r}: {word!r} has a mark, but {name!r} is an attribute, which is not converted")
    is_list = value[:1] == "[" and _NAME.fullmatch(value[1:-1]) is not None
    inner = value[1:-1] if is_list else value
    if inner == RESULT_TYPE or (_NAME.fullmatch(inner) and inner not in ("True", "False", "None")):
        return name, Source(inner, None, mark, is_list)
    try:
        return name, Source("", ast.literal_eval(value), mark, False)
    except (ValueError, SyntaxError):
        raise ValueError(f"{text!r}: {word!r} is neither an argument nor a constant") from None


def register_rows(rows: Iterable[str]) -> None:
    """Registers the converters of these rows. Raises ``ValueError`` if one is wrong, or a target has two."""
    targets: set[str] = set()
    for row in map(parse, rows):
        if row.target in targets:
            raise ValueError(f"{row.text!r}: the table of converters has another row for {row.target}")
        targets.add(row.target)
        registry.add(row.target, functools.partial(convert, row))


def register_rows_of_ascend(rows: Iterable[str]) -> None:
    """Registers the converters of rows for Ascend's operators, which torch_npu defines. A row is read at its first
    use. Arguments that it does not name are left to the parts of the operator."""
    for text in rows:
        registry.add(text.partition(":")[0], functools.partial(_convert_of_ascend, text))


def _convert_of_ascend(text: str, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    row = row_of_ascend(text)
    return add_operator(row, all_arguments(row.target, args, kwargs), meta_outputs)


@functools.cache
def row_of_ascend(text: str) -> Row:
    return parse(text)


def convert(row: Row, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    """Adds the operator of a row. If the engine has no rule for it, the target computes it."""
    return add_operator(row, _arguments(row, args, kwargs), meta_outputs, with_parts=True)


def add_operator(row: Row, given: Mapping[str, Any], meta_outputs: Any, with_parts: bool = False) -> Any:
    """Adds the operator of a row for the arguments ``given``, by name."""
    spec = meta_outputs[0] if isinstance(meta_outputs, (list, tuple)) else meta_outputs
    values = {
        name: spec.dtype if source.name == RESULT_TYPE else value_of(source, given) for name, source in row.sources
    }
    marks = {name: source.mark for name, source in row.sources if source.mark}
    exact = all(is_exact(values[name], spec.dtype) for name, mark in marks.items() if mark == "^^")
    common = (
        common_type([values[name] for name, mark in marks.items() if mark == "~"]) if "~" in marks.values() else None
    )
    of_result = spec.dtype if exact else DataType.DT_FLOAT
    for name, mark in marks.items():
        values[name] = operand(values[name], common if mark == "~" else of_result)
    numbers = {a.name: values.get(a.name) for a in _operator(row).attributes if a.kind is attr.Float}
    as_attributes({name: number for name, number in numbers.items() if isinstance(number, float)}, of_result)
    made = ge_op(row.op_type, **fitting(_operator(row), values), **_numbers_of_outputs(row, meta_outputs))
    result = _results(row, made)
    if with_parts and row.op_type not in ir.computed_types():
        operands = {source.name: values[name] for name, source in row.sources if _has_tensors(given.get(source.name))}
        part_functions.computed_by_target(result, row.target, {**given, **operands})
    return result if exact else cast(result, spec.dtype)


def _numbers_of_outputs(row: Row, meta_outputs: Any) -> dict[str, int]:
    """How many tensors the output has that is a list."""
    return {f"size_of_{x.name}": len(meta_outputs) for x in _operator(row).outputs if x.is_dynamic}


def _has_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(_has_tensors, value)))


def _results(row: Row, made: Any) -> Any:
    if not row.results:
        return made
    by_name = dict(zip((x.name for x in _operator(row).outputs), made, strict=True))
    results = [by_name[name] for name in row.results]
    return results if len(results) > 1 else results[0]


def value_of(source: Source, given: Mapping[str, Any]) -> Any:
    value = given[source.name] if source.name else source.value
    return integers([value]) if source.is_list else value


def fitting(operator: ir.Operator, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as the operator takes them: attributes as constants, and none that is None."""
    attributes = {attribute.name for attribute in operator.attributes}
    taken = {}
    for name, value in values.items():
        if name not in attributes:
            taken[name] = value
        elif value is not None:
            taken[name] = known(name, value)
    return taken


def _operator(row: Row) -> ir.Operator:
    operator = ir.find(row.op_type)
    assert operator is not None  # parse() has looked
    return operator


def _arguments(row: Row, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of the target by name. Raises ``NotImplementedError`` if one that the row does not name matters."""
    schema = schema_of(row.target)
    if schema is None:  # a function of Python: the row names its arguments in their order
        return dict(zip(argument_names(row), args, strict=True)) | dict(kwargs)
    defaults = {x.name: x.default_value for x in schema.arguments if x.has_default_value()}
    given = all_arguments(row.target, args, kwargs)
    named = {*argument_names(row), *row.ignored, *_OF_MEMORY}
    if any(source.mark or source.name == RESULT_TYPE for _, source in row.sources):
        named.add("dtype")  # the type of the result says it
    for name, value in given.items():
        if name not in named and (isinstance(value, Tensor) or value != defaults.get(name)):
            raise NotImplementedError(f"its argument {name} is {value!r}")
    return given


def all_arguments(target: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call of the overload of that name, with the defaults of its schema."""
    arguments = schema_of(target).arguments
    defaults = {x.name: x.default_value for x in arguments if x.has_default_value()}
    return defaults | dict(zip((x.name for x in arguments), args, strict=False)) | dict(kwargs)


def argument_names(row: Row) -> list[str]:
    """The arguments of the target that a row names, in its order."""
    return [source.name for _, source in row.sources if source.name and source.name != RESULT_TYPE]


def schema_of(target: str) -> Any:
    """The schema of the overload of that name; None for a function of Python and for an operator that is not
    defined."""
    namespace, _, rest = target.partition(".")
    operator, _, overload = rest.partition(".")
    if not overload:
        return None
    try:
        return getattr(getattr(getattr(torch.ops, namespace), operator), overload)._schema
    except AttributeError:
        return None
