# SPDX-License-Identifier: Apache-2.0
"""Prototypes of operators of the user, in both forms, and ``custom_op`` with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npugraph.ge import apis as ge
from npugraph.ge import attr, ir
from npugraph.ge.builders import custom_op
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import GeGraph
from npugraph.ge.ir import get_registered_ir_def
from npugraph.ge.prototypes import register_prototypes

JSON = [
    {
        "op": "ProtoJsonAdd",
        "language": "cpp",
        "input_desc": [
            {"name": "x", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "float"]},
            {"name": "bias", "param_type": "optional", "format": ["ND", "ND"], "type": ["float16", "float32"]},
            {"name": "others", "param_type": "dynamic", "format": ["ND"], "type": ["bf16"]},
        ],
        "output_desc": [{"name": "z", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "float"]}],
        "attr": [
            {"name": "scale", "param_type": "required", "type": "float"},
            {"name": "mode", "param_type": "optional", "type": "string", "default_value": "fast"},
            {"name": "axes", "param_type": "optional", "type": "list_int", "default_value": "[0, 1]"},
            {"name": "keep", "param_type": "optional", "type": "bool", "default_value": False},
        ],
    }
]
JSON_LINE = (
    "ProtoJsonAdd(x:{float16,float}, bias?:{float16,float}, others*:{bf16}) -> (z:{float16,float}) "
    '[scale:Float required, mode:String="fast", axes:ListInt={0, 1}, keep:Bool=false]'
)
HEADER = """
#include "graph/operator_reg.h"
namespace ge {
/* .INPUT(not_this, TensorType::ALL()) */
REG_OP(ProtoDeclared)
    .INPUT(x, TensorType({DT_FLOAT16, DT_FLOAT}))  // a comment, with (brackets
    .OPTIONAL_INPUT(mask, TensorType({ DT_BOOL }))
    .DYNAMIC_INPUT(others, TensorType::NumberType())
    .OUTPUT(x, TensorType({DT_FLOAT16, DT_FLOAT}))
    .DYNAMIC_OUTPUT(parts, TensorType::ALL())
    .REQUIRED_ATTR(n, Int)
    .ATTR(layout, String, "N, C")
    .ATTR(pads, ListInt, {0, 0, 0, 0})
    .OP_END_FACTORY_REG(ProtoDeclared)
REG_OP(ProtoSecond).INPUT(x, "T").OUTPUT(y, "T").DATATYPE(T, TensorType({DT_INT8})).OP_END_FACTORY_REG(ProtoSecond)
}
"""
HEADER_LINE = (
    "ProtoDeclared(x:{float16,float}, mask?:{bool}, others*:NumberType) -> (x:{float16,float}, parts*:ALL) "
    '[n:Int required, layout:String="N, C", pads:ListInt={0,0,0,0}]'
)


def write(path: Path, text: Any) -> Path:
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def test_prototypes_are_read_from_json(tmp_path: Path) -> None:
    assert register_prototypes(write(tmp_path / "op.json", JSON)) == ["ProtoJsonAdd"]
    operator = ir.find("ProtoJsonAdd")
    assert operator is not None
    assert operator.text == JSON_LINE
    assert [row.default for row in operator.attributes] == [None, "fast", [0, 1], False]
    assert "ProtoJsonAdd" in ir.names()


def test_prototypes_are_read_from_declarations(tmp_path: Path) -> None:
    path = write(tmp_path / "ops.h", HEADER)
    for _ in range(2):  # again: nothing
        assert register_prototypes(path) == ["ProtoDeclared", "ProtoSecond"]
    operator = ir.find("ProtoDeclared")
    assert operator is not None
    assert operator.text == HEADER_LINE
    known, inputs, outputs, attributes = get_registered_ir_def("ProtoDeclared")
    assert known
    assert inputs == [("x", "required"), ("mask", "optional"), ("others", "dynamic")]
    assert outputs == [("x", "required"), ("parts", "dynamic")]
    assert attributes == [("n", "Int"), ("layout", "Str"), ("pads", "ListInt")]


@pytest.mark.feature("6.32")
def test_custom_op_takes_arguments_by_place_once_it_is_known(tmp_path: Path) -> None:
    name = "ProtoByPlace"
    prototype = {
        "op": name,
        "input_desc": [{"name": "x", "type": ["float"]}, {"name": "y", "param_type": "optional", "type": ["float"]}],
        "output_desc": [{"name": "x", "type": ["float"]}],
        "attr": [{"name": "scale", "param_type": "optional", "type": "float", "default_value": "2.0"}],
    }
    with GeGraph(name="g").context():
        x = ge.Data(index=0, dtype=DataType.DT_FLOAT, shape=[2])
        with pytest.raises(RuntimeError, match="'ProtoByPlace' is not registered"):
            custom_op(name, x)
        register_prototypes(write(tmp_path / "op.json", [prototype]))
        node = custom_op(name, x, None, 3.0).node
        assert [desc.name for desc in node.output_desc] == ["x"]
        assert node.attr["scale"].f == 3
        with pytest.raises(RuntimeError, match="ProtoByPlace has no attribute 'factor'"):
            custom_op(name, inputs={"x": x}, outputs=["x"], attrs={"factor": attr.Float(1.0)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int main() {}", "neither a JSON list of operators nor a REG_OP declaration"),
        ([{"op": "ProtoBad", "input_desc": []}], "it has no 'output_desc'"),
        ([{"op": "ProtoBad", "output_desc": [{"name": "z", "type": ["float"], "param_type": "any"}]}], "'any'"),
        (
            [{"op": "ProtoBad", "output_desc": [], "attr": [{"name": "a", "type": "real"}]}],
            "the type of attribute 'a' is one of .* got 'real'",
        ),
        ("REG_OP(ProtoBad).INFERRED(x).OP_END_FACTORY_REG(ProtoBad)", r"REG_OP\(ProtoBad\) has no clause .INFERRED"),
        ([{"op": "Add", "output_desc": [{"name": "z", "type": ["float"]}]}], "has an operator of this name already"),
    ],
)
def test_what_is_no_prototype_is_refused(text: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        register_prototypes(write(tmp_path / "ops", text))
    assert ir.find("ProtoBad") is None
