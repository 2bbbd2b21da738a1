# SPDX-License-Identifier: Apache-2.0
"""The messages of GE graphs are those of the wire: names, numbers and types of fields, and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings

from npugraph.ge import proto
from tests.python.ge import drawn_messages
from tests.python.ge.protoc import descriptor_set

WIRE = Path(__file__).with_name("ge_ir_wire.txt").read_text()  # facts of the wire that ge_ir.proto has to agree with


class Field(NamedTuple):
    number: int
    type: str
    is_repeated: bool
    oneof: str | None
    map: tuple[str, str] | None  # types of key and value


def wire_messages() -> dict[str, dict[str, Field]]:
    """Fields by full name of their message, as the table states them."""
    messages: dict[str, dict[str, Field]] = {}
    for block in re.split(r"(?m)^message ", WIRE)[1:]:
        name, body = block.split("\n", 1)
        maps = {entry: (key, value) for entry, key, value in re.findall(r"(?m)^  map (\w+): (\S+) -> (\S+)$", body)}
        fields = messages[f"ge.proto.{name}"] = {}
        for field, star, number, type_name, oneof in re.findall(
            r"(?m)^  (\w+)(\*?) = (\d+) : (\S+)(?: \(oneof (\w+)\))?$", body
        ):
            fields[field] = Field(
                int(number), type_name, bool(star), oneof or None, maps.get(type_name.rpartition(".")[2])
            )
    return messages


def all_messages(messages: Any) -> Iterator[Any]:
    for message in messages:
        if not message.GetOptions().map_entry:
            yield message
            yield from all_messages(message.nested_types)


def type_of(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return field.message_type.full_name
    if field.enum_type is not None:
        return field.enum_type.full_name
    names = {value: name for name, value in descriptor_pb2.FieldDescriptorProto.Type.items()}
    return names[field.type].removeprefix("TYPE_").lower()


def described(field: FieldDescriptor) -> Field:
    entry = field.message_type if field.message_type is not None and field.message_type.GetOptions().map_entry else None
    return Field(
        field.number,
        type_of(field),
        field.is_repeated,
        field.containing_oneof.name if field.containing_oneof else None,
        entry and tuple(type_of(entry.fields_by_name[part]) for part in ("key", "value")),
    )


def test_messages_have_the_fields_of_the_wire() -> None:
    ours = {
        message.full_name: {field.name: described(field) for field in message.fields}
        for message in all_messages(proto.DESCRIPTOR.message_types_by_name.values())
    }
    assert ours == wire_messages()
    assert len(ours) == 38 and sum(map(len, ours.values())) == 182


def test_enums_have_the_values_of_the_wire() -> None:
    enums = {
        name: {member: int(number) for member, number in re.findall(r"(\w+)=(\d+)", members)}
        for name, members in re.findall(r"(?m)^ *enum (\w+): (.+)$", WIRE)
    }
    list_value = proto.AttrDef.ListValue
    assert enums == {"DataType": dict(proto.DataType.items()), "ListValueType": dict(list_value.ListValueType.items())}
    assert (proto.DT_FLOAT, proto.DT_BF16, list_value.VT_LIST_DATA_TYPE) == (1, 27, 10)


def test_bytes_are_those_of_the_wire() -> None:
    model = proto.ModelDef()
    op = model.graph.add().op.add(name="a")
    op.attr["k"].list.i.extend([1, 300])  # packed
    op.input_desc.add(dtype=proto.DT_INT64)
    entry = b"\x0a\x01k" + b"\x12\x07" + b"\x0a\x05" + b"\x1a\x03\x01\xac\x02"  # key, value: list: i
    content = b"\x0a\x01a" + b"\x52\x0c" + entry + b"\x8a\x02\x02\x10\x08"  # name, attr, input_desc
    assert model.SerializeToString() == b"\x3a\x18\x32\x16" + content


@settings(deadline=None, max_examples=50)
@given(drawn_messages.models())
def test_messages_survive_bytes_and_text(model: Any) -> None:
    data = model.SerializeToString(deterministic=True)
    assert proto.ModelDef.FromString(data).SerializeToString(deterministic=True) == data
    again = text_format.Parse(text_format.MessageToString(model), proto.ModelDef())
    assert again.SerializeToString(deterministic=True) == data


def test_another_copy_of_the_messages_does_not_clash() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="other/ge_ir.proto", package="ge.proto", syntax="proto3")
    model = file.message_type.add(name="ModelDef")
    model.field.add(name="name", number=1, type=9, label=1)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    other = message_factory.GetMessageClass(pool.FindMessageTypeByName("ge.proto.ModelDef"))
    assert proto.ModelDef is not other
    assert proto.ModelDef.FromString(other(name="m").SerializeToString()).name == "m"


def test_the_module_has_the_names_of_a_generated_one() -> None:
    namespace: dict[str, Any] = {}
    exec("from npugraph.ge.proto import *", namespace)
    assert {"ModelDef", "GraphDef", "OpDef", "TensorDef", "AttrDef", "DataType", "DT_FLOAT"} <= set(namespace)
    assert "ModelDef" in dir(proto)
    with pytest.raises(AttributeError, match=r"package ge.proto has no message or enum 'ModelDeff'"):
        _ = proto.ModelDeff


def test_the_descriptor_set_is_that_of_the_proto_file() -> None:
    kept = Path(proto.__file__).with_name("ge_ir.desc").read_bytes()
    wanted = descriptor_set(Path(proto.__file__).with_name("ge_ir.proto").read_text(), "ge_ir.proto")
    assert kept == wanted, "python/npugraph/ge/ge_ir.desc is not current: run scripts/ge_ir"
