# SPDX-License-Identifier: Apache-2.0
"""Prototypes: how operators of the user become known to Ascend IR. They come in the two forms that Ascend's tools have,
the JSON from which a project is generated, and the ``REG_OP`` declarations of C++ in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from npugraph import _C
from npugraph.ge.ir import Arity


def register_prototypes(path: str | os.PathLike[str]) -> list[str]:
    """Makes the operators of a file known: of a JSON file (``op``, ``input_desc``, ``output_desc``, ``attr``), or of a
    header with ``REG_OP`` declarations. ``torchair.ge.custom_op`` then takes their inputs and attributes by place, and
    checks them. What an operator computes is said by a kernel (``npugraph.load_library``).

    Returns the names of the operators. Raises ``ValueError`` if the file has none, for text that is no prototype, and
    if there is another operator of the same name."""
    text = Path(path).read_text()
    try:
        prototypes = _of_json(json.loads(text)) if text.lstrip()[:1] in ("[", "{") else _of_declarations(text)
        if not prototypes:
            raise ValueError("it has neither a JSON list of operators nor a REG_OP declaration")
        for prototype in prototypes:
            _C.ge.add_operator(prototype.line())
    except (ValueError, KeyError, TypeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"prototypes of '{os.fspath(path)}': {reason}") from None
    return [prototype.name for prototype in prototypes]


_MARKS = {Arity.REQUIRED: "", Arity.OPTIONAL: "?", Arity.DYNAMIC: "*"}


class _Tensor(NamedTuple):
    name: str
    arity: Arity
    types: str

    def text(self) -> str:
        return f"{self.name}{_MARKS[self.arity]}:{self.types}"


class _Attribute(NamedTuple):
    name: str
    kind: str
    default: str | None  # None if it is required

    def text(self) -> str:
        return f"{self.name}:{self.kind}" + (" required" if self.default is None else f"={self.default}")


class _Prototype(NamedTuple):
    name: str
    inputs: Sequence[_Tensor]
    outputs: Sequence[_Tensor]
    attributes: Sequence[_Attribute]

    def line(self) -> str:
        """As ``npugraph.ge.ir`` describes it."""
        inputs, outputs, attributes = (
            ", ".join(row.text() for row in rows) for rows in (self.inputs, self.outputs, self.attributes)
        )
        return f"{self.name}({inputs}) -> ({outputs})" + (f" [{attributes}]" if attributes else "")


# JSON

_TYPES = {"fp16": "float16", "half": "float16", "fp32": "float", "float32": "float", "bfloat16": "bf16"}
_KINDS = {
    **{"int": "Int", "float": "Float", "bool": "Bool", "str": "String", "string": "String", "type": "Type"},
    **{"listint": "ListInt", "listfloat": "ListFloat", "listbool": "ListBool", "liststring": "ListString"},
    **{"listlistint": "ListListInt", "listtype": "ListType", "datatype": "Type"},
}


def _of_json(described: Any) -> list[_Prototype]:
    operators = described if isinstance(described, list) else [described]
    return [
        _Prototype(
            operator["op"],
            [_json_tensor(tensor) for tensor in operator.get("input_desc", [])],
            [_json_tensor(tensor) for tensor in operator["output_desc"]],
            [_json_attribute(attribute) for attribute in operator.get("attr", [])],
        )
        for operator in operators
    ]


def _json_tensor(tensor: Any) -> _Tensor:
    types = tensor["type"]
    return _Tensor(
        tensor["name"], Arity(tensor.get("param_type", "required")), _braces(_unique(map(_json_type, types)))
    )


def _json_type(name: str) -> str:
    return _TYPES.get(name.lower(), name.lower())


def _json_attribute(attribute: Any) -> _Attribute:
    kind = _KINDS.get(attribute["type"].lower().replace("_", ""))
    if kind is None:
        raise ValueError(
            f"the type of attribute {attribute['name']!r} is one of {sorted(_KINDS)}, got {attribute['type']!r}"
        )
    is_required = attribute.get("param_type", "required") == "required"
    return _Attribute(attribute["name"], kind, None if is_required else _default(kind, attribute["default_value"]))


def _default(kind: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return _braces(_default(kind.removeprefix("List"), part) for part in value)
    text = str(value).replace("[", "{").replace("]", "}")
    return f'"{text}"' if kind == "String" and text[:1] != '"' else text


# REG_OP

_DECLARATION = re.compile(r"\bREG_OP\s*\(\s*(\w+)\s*\)(.*?)\.\s*OP_END_FACTORY_REG\s*\(", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ARITIES = {"": Arity.REQUIRED, "OPTIONAL_": Arity.OPTIONAL, "DYNAMIC_": Arity.DYNAMIC}


def _of_declarations(text: str) -> list[_Prototype]:
    return [_declared(name, body) for name, body in _DECLARATION.findall(_COMMENT.sub(" ", text))]


def _declared(name: str, body: str) -> _Prototype:
    made = _Prototype(name, [], [], [])
    for word, arguments in _calls(body):
        side = next((side for side in ("INPUT", "OUTPUT") if word.endswith(side)), None)
        if side and word.removesuffix(side) in _ARITIES:
            tensors = made.inputs if side == "INPUT" else made.outputs
            types = _declared_types(arguments[1]) if len(arguments) > 1 else "ALL"
            tensors.append(_Tensor(arguments[0], _ARITIES[word.removesuffix(side)], types))
        elif word in ("ATTR", "REQUIRED_ATTR"):
            default = _squeezed(arguments[2]) if word == "ATTR" else None
            made.attributes.append(_Attribute(arguments[0], arguments[1], default))
        elif word not in ("DATATYPE", "GRAPH", "DYNAMIC_GRAPH"):
            raise ValueError(f"REG_OP({name}) has no clause .{word}")
    return made


def _calls(body: str) -> Iterable[tuple[str, list[str]]]:
    """The clauses ``.WORD(a, b)`` with their arguments, split at commas outside of brackets."""
    for start in re.finditer(r"\.\s*([A-Z_]+)\s*\(", body):
        depth, quoted, arguments, begin = 1, False, [], start.end()
        for place in range(start.end(), len(body)):
            character = body[place]
            quoted ^= character == '"'
            depth += 0 if quoted else (character in "({[") - (character in ")}]")
            if depth == 0 or (depth == 1 and character == "," and not quoted):
                arguments.append(body[begin:place].strip())
                begin = place + 1
            if depth == 0:
                yield start[1], arguments
                break


def _declared_types(text: str) -> str:
    """``TensorType({DT_FLOAT16, DT_FLOAT})`` -> ``{float16,float}``, ``TensorType::NumberType()`` -> ``NumberType``."""
    listed = re.fullmatch(r"TensorType\s*\(\s*\{?(.*?)\}?\s*\)", text, re.DOTALL)
    if listed:
        return _braces(_unique(_json_type(part.strip().removeprefix("DT_")) for part in listed[1].split(",")))
    named = re.fullmatch(r"TensorType::(\w+)\s*\(\s*\)", text)
    return named[1] if named else "ALL"


def _squeezed(text: str) -> str:
    return text if text.startswith('"') else re.sub(r"\s+", "", text)


def _braces(parts: Iterable[str]) -> str:
    return "{" + ",".join(parts) + "}"


def _unique(parts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(parts))
