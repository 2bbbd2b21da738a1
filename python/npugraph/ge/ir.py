# SPDX-License-Identifier: Apache-2.0
"""The operators of Ascend IR as the engine knows them: names of inputs, outputs and attributes. The text of an operator
is ``Name(input:types, optional?:types, dynamic*:types) -> (outputs) [attribute:Kind=default]``."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from npugraph import _C
from npugraph.ge import attr
from npugraph.ge.data_types import DataType


class Arity(enum.Enum):
    REQUIRED = "required"
    OPTIONAL = "optional"
    DYNAMIC = "dynamic"  # any number of tensors: x0, x1, ...


class Operand(NamedTuple):
    """An input or an output."""

    name: str
    arity: Arity
    types: str  # as the IR states them: "{float16,float}", "BasicType"

    @property
    def is_dynamic(self) -> bool:
        return self.arity is Arity.DYNAMIC


class Attribute(NamedTuple):
    name: str
    kind: type[attr.Attr]
    is_required: bool
    default: Any  # None if it is required


class Operator(NamedTuple):
    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]
    text: str


def names() -> list[str]:
    """The names of all operators, sorted."""
    return _C.ge.operator_names()


@functools.cache
def computed_types() -> frozenset[str]:
    """The types of operators that the engine of this process computes itself."""
    return frozenset(_C.ge.imported_types())


def find(name: str) -> Operator | None:
    """The operator of that name; None if there is none."""
    operator = _found.get(name)
    if operator is None and (found := _C.ge.find_operator(name)) is not None:
        operator = _found.setdefault(name, _operator(name, *found))
    return operator


_found: dict[str, Operator] = {}  # operators are added and never change


def _operator(name: str, inputs: Any, outputs: Any, attributes: Any, text: str) -> Operator:
    return Operator(
        name,
        tuple(Operand(operand, Arity(arity), types) for operand, arity, types in inputs),
        tuple(Operand(operand, Arity(arity), types) for operand, arity, types in outputs),
        tuple(_attribute(*attribute) for attribute in attributes),
        text,
    )


def _attribute(name: str, kind_name: str, is_required: bool, text: str) -> Attribute:
    kind = attr.KINDS[kind_name]
    if is_required:
        return Attribute(name, kind, True, None)
    default = literal(text)
    return Attribute(name, kind, False, bool(default) if kind is attr.Bool else default)


_WORDS = {"true": True, "false": False, "True": True, "False": False}
_WORDS |= {"ge::UNKNOWN_RANK": [-2], "ge::UNKNOWN_SHAPE": [-1]}
_NUMBER = re.compile(r"(-?[\d.]+(?:e-?\d+)?)f?(?:/([\d.]+))?")


def literal(text: str) -> Any:
    """The value of a default: ``8``, ``1e-5f``, ``1.f/4``, ``{1,1}``, ``"NHWC"``, ``DT_FLOAT``, ``true``. Raises
    ``ValueError`` for other text."""
    if text in _WORDS:
        return _WORDS[text]
    if text in DataType.__members__:
        return DataType[text]
    if text[:1] in ("'", '"'):
        return text[1:-1]
    if text[:1] in ("{", "["):
        return [literal(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    number = _NUMBER.fullmatch(text)
    if number is None:
        raise ValueError(f"a default of Ascend IR is a number, a text, a list or a name of a type, got {text!r}")
    return float(number[1]) / float(number[2] or 1)


Names = list[tuple[str, str]]


def get_registered_ir_def(op_type: str) -> tuple[bool, Names, Names, Names]:
    """Whether Ascend IR has the operator, and its inputs, outputs and attributes in order. Inputs and outputs are
    pairs of a name and ``required``, ``optional`` or ``dynamic``, attributes pairs of a name and a class of
    ``torchair.ge.attr``."""
    operator = find(op_type)
    if operator is None:
        return False, [], [], []
    inputs, outputs = (
        [(operand.name, operand.arity.value) for operand in operands]
        for operands in (operator.inputs, operator.outputs)
    )
    return True, inputs, outputs, [(attribute.name, attribute.kind.__name__) for attribute in operator.attributes]


def check_cann_compat(op_type: str, optional_inputs: Sequence[str] = (), optional_attrs: Sequence[str] = ()) -> bool:
    """Whether Ascend IR has an operator with these optional inputs and these attributes. Older versions of operators
    lack some."""
    is_known, inputs, _, attributes = get_registered_ir_def(op_type)
    has_inputs = {name for name, arity in inputs if arity == "optional"}.issuperset(optional_inputs)
    has_attributes = {name for name, _ in attributes}.issuperset(optional_attrs)
    return is_known and has_inputs and has_attributes
