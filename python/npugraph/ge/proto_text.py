# SPDX-License-Identifier: Apache-2.0
"""Reads the text of a ``.proto`` file. Knows what ``ge_ir.proto`` uses of the language: messages and enums, nested ones
too, fields of proto3, maps and ``oneof``. Not known: imports, options, services, reserved numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_TOKEN = re.compile(r'//[^\n]*|\s+|("[^"]*"|[\w.]+|[{}<>=,;])')


def read(text: str, file_name: str) -> descriptor_pb2.FileDescriptorProto:
    """Returns the description of the file. Raises ``ValueError`` for text that it does not know."""
    file = descriptor_pb2.FileDescriptorProto(name=file_name)
    _Reader(text).file(file)
    _resolve(file)
    return file


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)

    def next(self, *expected: str) -> str:
        token = next(self.tokens, "end of text")
        if expected and token not in expected:
            raise ValueError(f"expected {' or '.join(expected)} in a .proto file, got {token}")
        return token

    def file(self, file: Any) -> None:
        for token in self.tokens:
            if token == "syntax":
                self.next("=")
                file.syntax = self.next().strip('"')
                self.next(";")
            elif token == "package":
                file.package = self.next()
                self.next(";")
            elif token == "enum":
                self.enum(file.enum_type.add())
            elif token == "message":
                self.message(file.message_type.add())
            else:
                raise ValueError(f"expected syntax, package, enum or message in a .proto file, got {token}")

    def enum(self, enum: Any) -> None:
        enum.name = self.next()
        self.next("{")
        while (token := self.next()) != "}":
            enum.value.add(name=token, number=self.number())

    def message(self, message: Any) -> None:
        message.name = self.next()
        self.next("{")
        while (token := self.next()) != "}":
            if token == "enum":
                self.enum(message.enum_type.add())
            elif token == "message":
                self.message(message.nested_type.add())
            elif token == "oneof":
                self.oneof(message)
            elif token == "map":
                self.map(message)
            elif token == "repeated":
                self.field(message, self.next(), label=_Field.LABEL_REPEATED)
            else:
                self.field(message, token)

    def oneof(self, message: Any) -> None:
        message.oneof_decl.add(name=self.next())
        self.next("{")
        while (token := self.next()) != "}":
            self.field(message, token, oneof_index=len(message.oneof_decl) - 1)

    def map(self, message: Any) -> None:
        """A map is a repeated message of a key and a value, named after the field."""
        self.next("<")
        key = self.next()
        self.next(",")
        value = self.next()
        self.next(">")
        field = self.field(message, "", label=_Field.LABEL_REPEATED)
        field.type_name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=field.type_name)
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate((("key", key), ("value", value)), start=1):
            entry.field.add(name=name, number=number, type_name=type_name, label=_Field.LABEL_OPTIONAL)

    def field(self, message: Any, type_name: str, label: int = _Field.LABEL_OPTIONAL, **more: int) -> Any:
        name = self.next()
        return message.field.add(name=name, number=self.number(), type_name=type_name, label=label, **more)

    def number(self) -> int:
        self.next("=")
        number = int(self.next())
        self.next(";")
        return number


def _tokens(text: str) -> Iterator[str]:
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        if match[1]:
            yield match[1]
    if end != len(text):
        raise ValueError(f"unknown character {text[end]!r} in a .proto file")


def _resolve(file: Any) -> None:
    """Gives each field its type. A name of a message or an enum is looked up from the inside out."""
    kinds: dict[str, int] = {}  # by full name

    def collect(scope: str, holder: Any, messages: Any) -> None:
        kinds.update({f"{scope}.{enum.name}": _Field.TYPE_ENUM for enum in holder.enum_type})
        for message in messages:
            kinds[f"{scope}.{message.name}"] = _Field.TYPE_MESSAGE
            collect(f"{scope}.{message.name}", message, message.nested_type)

    def resolve(scope: str, message: Any) -> None:
        scope = f"{scope}.{message.name}"
        for field in message.field:
            scalar = getattr(_Field, f"TYPE_{field.type_name.upper()}", None)
            if scalar is not None:
                field.type = scalar
                field.ClearField("type_name")
            else:
                field.type_name = _full_name(scope, field.type_name, kinds)
                field.type = kinds[field.type_name]
        for nested in message.nested_type:
            resolve(scope, nested)

    collect(f".{file.package}", file, file.message_type)
    for message in file.message_type:
        resolve(f".{file.package}", message)


def _full_name(scope: str, name: str, kinds: dict[str, int]) -> str:
    while scope:
        if f"{scope}.{name}" in kinds:
            return f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    raise ValueError(f"unknown type {name} in a .proto file")
