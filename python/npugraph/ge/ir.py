# SPDX-License-Identifier: Apache-2.0
"""The operators of Ascend IR: names of inputs, outputs and attributes. ``operators.txt`` has one line for each:
``Name(input:types, optional?:types, dynamic*:types) -> (outputs) [attribute:Kind=default]``."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from npugraph.ge import attr
from npugraph.ge.data_types import DataType


class Arity(enum.Enum):
    REQUIRED = ""
    OPTIONAL = "?"
    DYNAMIC = "*"  # any number of tensors: x0, x1, ...


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
    text: str  # its line


def names() -> list[str]:
    """The names of all operators, sorted."""
    return sorted(_lines())


@functools.cache
def find(name: str) -> Operator | None:
    """The operator of that name; None if there is none."""
    line = _lines().get(name)
    return None if line is None else parse(line)


def parse(line: str) -> Operator:
    """Reads a line of ``operators.txt``. Raises ``ValueError`` for malformed text."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"an operator of Ascend IR is written as Name(inputs) -> (outputs) [attributes], got {line!r}")
    name, inputs, outputs, attributes = match.groups(default="")
    return Operator(
        name,
        tuple(_operand(part) for part in _split(inputs)),
        tuple(_operand(part) for part in _split(outputs)),
        tuple(_attribute(part) for part in _split(attributes)),
        line,
    )


@functools.cache
def _lines() -> dict[str, str]:
    text = Path(__file__).with_name("operators.txt").read_text(encoding="utf-8")
    return {line.partition("(")[0]: line for line in text.splitlines() if line}


_LINE = re.compile(r"(\w+)\((.*)\) -> \((.*?)\)(?: \[(.*)\])?")
_OPERAND = re.compile(r"(\w+)([?*]?):(.+)")
_ATTRIBUTE = re.compile(r"(\w+):(\w+)(?:( required)|=(.*))")
_QUOTES = "\"'"


def _split(text: str) -> Iterator[str]:
    """Parts of ``text`` between commas that are in no brackets and no quotes."""
    depth, quote, begin = 0, "", 0
    for place, char in enumerate(text):
        if char in _QUOTES and quote in ("", char):
            quote = "" if quote else char
        elif quote:
            continue
        elif char in "({[":
            depth += 1
        elif char in ")}]":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[begin:place].strip()
            begin = place + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def _operand(text: str) -> Operand:
    match = _OPERAND.fullmatch(text)
    if match is None:
        raise ValueError(f"an operand of Ascend IR is written as name:types, name?:types or name*:types, got {text!r}")
    return Operand(match[1], Arity(match[2]), match[3])


def _attribute(text: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(text)
    kind = attr.KINDS.get("Int" if match[2] == "int" else match[2]) if match else None
    if match is None or kind is None:
        raise ValueError(
            f"an attribute of Ascend IR is written as name:Kind=default or name:Kind required, with a kind of "
            f"{', '.join(attr.KINDS)}, got {text!r}"
        )
    if match[3] is not None:
        return Attribute(match[1], kind, True, None)
    default = literal(match[4])
    return Attribute(match[1], kind, False, bool(default) if kind is attr.Bool else default)


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
    if text[:1] in _QUOTES and text[-1:] == text[:1]:
        return text[1:-1]
    if text[:1] in ("{", "["):
        return [literal(part) for part in _split(text[1:-1])]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    number = _NUMBER.fullmatch(text)
    if number is None:
        raise ValueError(f"a default of Ascend IR is a number, a text, a list or a name of a type, got {text!r}")
    return float(number[1]) / float(number[2] or 1)
