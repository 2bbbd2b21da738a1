# SPDX-License-Identifier: Apache-2.0
"""Strategies of hypothesis for messages of package ge.proto: any of them, as programs of others may write them."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st

from npugraph.ge import proto

names = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="_/:"), max_size=6)
floats = st.one_of(st.floats(width=32, allow_nan=False), st.just(math.nan))  # text knows one NaN
ints = st.integers(-(2**63), 2**63 - 1)
dims = st.lists(st.integers(-2, 4), max_size=3)
wire_types = st.sampled_from(proto.DataType.values())


def _attr_values(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of AttrDef: one of its fields, or none."""
    list_of = proto.AttrDef.ListValue
    lists = st.builds(
        list_of,
        s=st.lists(st.binary(max_size=3), max_size=2),
        i=st.lists(ints, max_size=3),
        f=st.lists(floats, max_size=3),
        b=st.lists(st.booleans(), max_size=3),
        dt=st.lists(st.integers(0, 42), max_size=3),
        val_type=st.sampled_from(list_of.ListValueType.values()),
    )
    rows = st.builds(proto.AttrDef.ListListInt.ListInt, list_i=st.lists(ints, max_size=3))
    float_rows = st.builds(proto.AttrDef.ListListFloat.ListFloat, list_f=st.lists(floats, max_size=3))
    choices: dict[str, st.SearchStrategy[Any]] = {
        "s": st.binary(max_size=4),
        "i": ints,
        "f": floats,
        "b": st.booleans(),
        "bt": st.binary(max_size=4),
        "dt": st.integers(0, 42),
        "expression": st.binary(max_size=4),
        "list": lists,
        "list_list_int": st.builds(proto.AttrDef.ListListInt, list_list_i=st.lists(rows, max_size=2)),
        "list_list_float": st.builds(proto.AttrDef.ListListFloat, list_list_f=st.lists(float_rows, max_size=2)),
    }
    if depth > 0:
        choices["td"] = descs(depth - 1)
        choices["t"] = st.builds(proto.TensorDef, desc=descs(depth - 1), data=st.binary(max_size=8))
        choices["func"] = st.builds(proto.NamedAttrs, name=names, attr=attrs(depth - 1))
    return st.one_of(st.just({}), *(st.fixed_dictionaries({name: values}) for name, values in choices.items()))


def attrs(depth: int = 1) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, _attr_values(depth).map(lambda fields: proto.AttrDef(**fields)), max_size=3)


def descs(depth: int = 1) -> st.SearchStrategy[Any]:
    return st.builds(
        proto.TensorDescriptor,
        name=names,
        dtype=wire_types,
        shape=st.builds(proto.ShapeDef, dim=dims),
        layout=names,
        device_type=st.sampled_from(["", "NPU", "CPU"]),
        attr=attrs(depth) if depth > 0 else st.just({}),
    )


def ops() -> st.SearchStrategy[Any]:
    return st.builds(
        proto.OpDef,
        name=names,
        type=st.sampled_from(["Add", "Const", "Data", "NetOutput", "Split", "Cast", "Own", "", "a b"]),
        input=st.lists(st.one_of(names, st.just(""), st.sampled_from(["a:0", "a:-1", "b:1"])), max_size=3),
        attr=attrs(),
        input_desc=st.lists(descs(), max_size=2),
        output_desc=st.lists(descs(), max_size=2),
        id=ints,
    )


def graphs() -> st.SearchStrategy[Any]:
    return st.builds(
        proto.GraphDef, name=names, input=st.lists(names, max_size=2), op=st.lists(ops(), max_size=4), attr=attrs()
    )


def models() -> st.SearchStrategy[Any]:
    versions = st.integers(0, 2**32 - 1)
    return st.builds(proto.ModelDef, name=names, version=versions, graph=st.lists(graphs(), max_size=2), attr=attrs())
