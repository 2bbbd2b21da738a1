# SPDX-License-Identifier: Apache-2.0
"""Operators that builders add: inputs, attributes and outputs as Ascend IR says, and calls that it does not allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from npugraph.ge import apis as ge
from npugraph.ge import attr, const, ir, proto
from npugraph.ge.builders import custom_op, ge_op
from npugraph.ge.data_types import DataType, TensorSpec
from npugraph.ge.graph import GeGraph, Tensor


@pytest.fixture
def graph() -> Iterator[GeGraph]:
    with GeGraph(name="g").context() as graph:
        yield graph


def data(size: list[int] | None = None) -> Tensor:
    return ge.Data(index=0, dtype=torch.float16, shape=size or [2, 3])


def names(descs: Any) -> list[str]:
    return [desc.name for desc in descs]


def test_inputs_name_their_producers(graph: GeGraph) -> None:
    x = data()
    values, indices = ge.TopKV2(x, 2)
    y = ge_op("Add", values, x2=indices, node_name="sum").node
    assert (y.name, list(y.input), names(y.input_desc), names(y.output_desc)) == (
        *("sum", ["TopKV2:0", "TopKV2:1"]),
        *(["x1", "x2"], ["y"]),
    )
    topk = values.node
    assert list(topk.input) == ["Data:0", "Const:0"]
    desc = topk.input_desc[0]
    assert (desc.name, desc.dtype, list(desc.shape.dim), desc.device_type) == ("x", proto.DT_FLOAT16, [2, 3], "NPU")


def test_every_attribute_is_written_in_the_field_of_its_kind(graph: GeGraph) -> None:
    x = data()
    conv = ge.Conv2D(x, x, strides=[1, 1, 2, 2], pads=[0, 0, 0, 0], data_format="NCHW").node.attr
    assert list(conv["strides"].list.i) == [1, 1, 2, 2] and conv["strides"].list.val_type == 2
    assert list(conv["dilations"].list.i) == [1, 1, 1, 1]  # a default
    assert (conv["groups"].i, conv["data_format"].s) == (1, b"NCHW")
    gelu = ge.SoftmaxV2(x, [1], True).node.attr
    assert list(gelu["axes"].list.i) == [1] and gelu["half_to_float"].b is True
    cast = ge.Cast(x, dst_type=torch.int32)
    assert cast.node.attr["dst_type"].WhichOneof("value") == "i" and cast.node.attr["dst_type"].i == DataType.DT_INT32
    assert cast.dtype == DataType.DT_INT32
    bitcast = ge.Bitcast(x, type=torch.int16).node.attr["type"]
    assert (bitcast.WhichOneof("value"), bitcast.dt) == ("dt", DataType.DT_INT16)
    assert ge.AddRmsNorm(x, x, x, epsilon=1).__class__ is tuple


def test_names_that_python_or_two_sides_use(graph: GeGraph) -> None:
    x = data()
    y = ge_op("GatherD", x, 1, x, dim=0)  # an input and an attribute
    assert names(y.node.input_desc) == ["x", "dim", "index"] and y.node.attr["dim"].i == 0
    assert ge_op("Exponential", x, **{"lambda": 2.0}).node.attr["lambda"].f == 2.0
    assert ge.OpTiling([x], [x], tiling_node="a", op_type="b")[0].node.attr["op_type"].s == b"b"


@pytest.mark.feature("6.34")
def test_absent_optional_inputs_are_written(graph: GeGraph) -> None:
    x = data()
    node = ge.FlashAttentionScore(x, x, x, atten_mask=x, head_num=1, input_layout="BSH")[0].node
    assert list(node.input) == ["Data:0"] * 3 + [""] * 3 + ["Data:0"] + [""] * 5
    absent = node.input_desc[3]
    assert (absent.name, absent.dtype, absent.attr["_is_unfed_optional"].i) == ("real_shift", proto.DT_UNDEFINED, 1)
    assert len(node.input_desc) == 12


@pytest.mark.feature("6.34")
def test_dynamic_inputs_and_outputs(graph: GeGraph) -> None:
    x = data()
    joined = ge.ConcatV2([x, 1.0, x], 0, N=3)
    assert names(joined.node.input_desc) == ["x0", "x1", "x2", "concat_dim"]
    assert list(joined.node.input) == ["Data:0", "Const:0", "Data:0", "Const_1:0"]
    parts = ge.Unpack(joined, num=2, size_of_y=2)
    assert isinstance(parts, list) and [part.tensor for part in parts] == ["Unpack:0", "Unpack:1"]
    assert names(parts[0].node.output_desc) == ["y0", "y1"]
    splits, value = ge.RaggedGather([x, x], x, x, Tsplits=DataType.DT_INT64, size_of_output_nested_splits=2)[:2]
    assert [part.index for part in splits] == [0, 1] and value.index == 2
    grouped = ge.GroupedMatmul([x], [x], [], None, [], [], [], size_of_y=1)
    assert names(grouped[0].node.input_desc) == ["x0", "weight0", "group_list", "per_token_scale"]


@pytest.mark.feature("6.34")
def test_an_output_named_as_an_input_is_that_tensor(graph: GeGraph) -> None:
    x = data()
    written = ge.Assign(x, 1.0)
    assert names(written.node.output_desc) == ["ref"] and written.dtype == DataType.DT_FLOAT16
    assert list(written.desc.shape.dim) == [2, 3]
    absent = custom_op("Own", inputs={"x": None}, outputs=["x"])
    assert "_is_unfed_optional" not in absent.desc.attr


def test_an_operator_without_outputs_returns_itself(graph: GeGraph) -> None:
    assert ge.PrintV2(data()).type == "PrintV2"


def constant(tensor: Any, place: int, graph: GeGraph) -> torch.Tensor:
    name = tensor.node.input[place].split(":")[0]
    return const.tensor_of(next(op for op in graph.op if op.name == name).attr["value"].t)


def test_values_become_constants(graph: GeGraph) -> None:
    x = data()
    assert constant(ge.Reshape(x, [3, -1]), 1, graph).tolist() == [3, -1]
    assert constant(ge.Reshape(x, []), 1, graph).dtype == torch.int64
    assert constant(ge.Mul(x, 2.5), 1, graph).dtype == torch.float32
    assert constant(ge.Mul(x, torch.ones(2, dtype=torch.bfloat16)), 1, graph).dtype == torch.bfloat16
    split = ge.Split(1, x, num_split=2, size_of_y=2)[0]  # takes int32 only
    assert constant(split, 0, graph).dtype == torch.int32
    order = [op.type for op in graph.op]
    assert order[:3] == ["Data", "Const", "Reshape"]


@pytest.mark.feature("6.33")
def test_clone_and_cast_run_after_their_dependencies(graph: GeGraph) -> None:
    x = data()
    y = ge.Clone(x, dependencies=[ge.PrintV2(x)], node_name="copy")
    assert (y.node.type, y.node.name, list(y.node.input)) == ("TensorMove", "copy", ["PrintV2:-1", "Data:0"])
    assert y.dtype == DataType.DT_FLOAT16
    z = ge.Cast(x, dst_type=DataType.DT_BF16, dependencies=[y])
    assert list(z.node.input) == ["copy:-1", "Data:0"] and z.dtype == DataType.DT_BF16


def test_custom_op_by_place_is_the_builder(graph: GeGraph) -> None:
    x = data()
    by_place = custom_op("SoftmaxV2", x, [0], node_name="s")
    assert list(by_place.node.attr["axes"].list.i) == [0] and by_place.node.name == "s"
    with pytest.raises(RuntimeError, match=r"Unpack needs the number of tensors .* outputs=\[\('y', number\)\]"):
        custom_op("Unpack", x, 2)
    assert len(custom_op("Unpack", inputs={"x": x}, outputs=[("y", 2)], attrs={"num": attr.Int(2)})) == 2


def test_custom_op_says_what_an_unregistered_operator_has(graph: GeGraph) -> None:
    x = data()
    result, parts, state = custom_op(
        "MyOp",
        inputs={"x": x, "bias": None, "ks": [x, x], "state": x, "size": [1, 2]},
        outputs=["y", ("z", 2), "state"],
        attrs={
            **{"i": attr.Int(3), "f": attr.Float(0.5), "b": attr.Bool(True), "s": attr.Str("é")},
            **{"t": attr.DataType(DataType.DT_BF16), "li": attr.ListInt([1, 2]), "lf": attr.ListFloat([0.5])},
            **{"lb": attr.ListBool([True, False]), "lt": attr.ListDataType([DataType.DT_INT8, torch.float32])},
            **{"ls": attr.ListStr(["a", ""]), "lli": attr.ListListInt([[1], [], [2, 3]])},
            **{"llf": attr.ListListFloat([[0.5]]), "empty": attr.ListInt([])},
        },
        node_name="mine",
    )
    node = result.node
    assert (node.type, node.name) == ("MyOp", "mine")
    assert list(node.input) == ["Data:0", "", "Data:0", "Data:0", "Data:0", "Const:0"]
    assert names(node.input_desc) == ["x", "bias", "ks0", "ks1", "state", "size"]
    assert names(node.output_desc) == ["y", "z0", "z1", "state"] and state.dtype == DataType.DT_FLOAT16
    assert ([part.index for part in parts], state.index) == ([1, 2], 3)
    a = node.attr
    assert (a["i"].i, a["f"].f, a["b"].b, a["s"].s, a["t"].dt) == (3, 0.5, True, "é".encode(), 27)
    numbers = {"ls": 1, "li": 2, "lf": 3, "lb": 4, "lt": 10, "empty": 2}
    assert {name: a[name].list.val_type for name in numbers} == numbers
    assert (list(a["lt"].list.dt), list(a["ls"].list.s)) == ([2, 0], [b"a", b""])
    assert [list(row.list_i) for row in a["lli"].list_list_int.list_list_i] == [[1], [], [2, 3]]
    assert [list(row.list_f) for row in a["llf"].list_list_float.list_list_f] == [[0.5]]


def test_custom_op_is_completed_if_the_operator_is_registered(graph: GeGraph) -> None:
    x = data()
    y = custom_op("SoftmaxV2", inputs={"x": x}, outputs=["y"], attrs={"axes": attr.ListInt([0])})
    assert y.node.attr["half_to_float"].b is False
    swapped = custom_op("Sub", inputs={"x2": 1.0, "x1": x}, outputs=["y"])
    assert names(swapped.node.input_desc) == ["x1", "x2"] and swapped.node.input[0] == "Data:0"


Bad = Callable[[Tensor], Any]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: custom_op("Sofmax", x), r"operator 'Sofmax' is not registered: .* similar names: .*Softmax"),
        (lambda x: ge.Add(x), r"Add needs its input 'x2'; it is Add\(x1:.*\) -> \(y:"),
        (lambda x: ge.Add(x, x, x), r"Add takes 2 arguments, got 3; it is Add\("),
        (lambda x: ge.Add(x, y=x), r"Add: 'y' is neither an input nor an attribute; it is Add\("),
        (lambda x: ge.Add(x, x1=x), r"Add: 'x1' is given twice"),
        (
            lambda x: ge.Add(x, [x]),
            r"input 'x2' of Add takes a torchair.ge.Tensor, a number or a list .*, got \[Tensor",
        ),
        (lambda x: ge.Add(x, None), "Add needs its input 'x2'"),
        (lambda x: ge.ConcatV2(x, 0), r"input 'x' of ConcatV2 is dynamic, so it takes a list, got Tensor\("),
        (lambda x: ge.ConcatV2([x, None], 0), r"input 'x' of ConcatV2 takes .*, got None"),
        (lambda x: ge.Pack([x]), "Pack needs its attribute 'N'"),
        (
            lambda x: ge.SoftmaxV2(x, axes=1),
            r"attribute 'axes' of SoftmaxV2: a value of kind ListInt is a list .*, got 1",
        ),
        (lambda x: ge.SoftmaxV2(x, axes=[1.5]), r"kind ListInt .* each element is an int of 64 bits, got \[1.5\]"),
        (lambda x: ge.SoftmaxV2(x, half_to_float=1), r"kind Bool is a bool, got 1 \(int\)"),
        (lambda x: ge.Pack([x], N=2**63), r"kind Int is an int of 64 bits, got 9223372036854775808"),
        (lambda x: ge.Cast(x, dst_type="float"), "an element type is a member of torchair.ge.DataType"),
        (lambda x: ge.Bitcast(x, type=5), r"kind Type is a torchair.ge.DataType or a torch.dtype, got 5"),
        (lambda x: ge.Relu(x, size_of_y=2), "Relu has no dynamic output 'y'"),
        (lambda x: ge.Unpack(x, num=2, size_of_y=-1), "Unpack needs the number of tensors of its dynamic output"),
        (lambda x: ge.Relu(x, dependencies=["Data"]), r"a dependency of Relu is a torchair.ge.Tensor or an OpDef"),
        (lambda x: custom_op("Own", x, outputs=["y"]), r"takes its inputs by place, or inputs=, outputs= and attrs="),
        (lambda x: custom_op("Own", inputs={"x": x}, outputs=[("y", "2")]), r"an output of Own is a name, or a tuple"),
        (lambda x: custom_op("Own", attrs={"a": 1}), r"attribute 'a' of Own is a value of torchair.ge.attr, .* got 1"),
        (lambda x: custom_op("Relu", inputs={"x": x}, outputs=["z"]), r"outputs of Relu are \['y'\], got \['z'\]"),
        (lambda x: custom_op("Relu", inputs={"a": x}, outputs=["y"]), "Relu has no input 'a'"),
        (
            lambda x: custom_op("SoftmaxV2", inputs={"x": x}, outputs=["y"], attrs={"axes": attr.Int(0)}),
            r"attribute 'axes' of SoftmaxV2 is of kind ListInt, got Int\(0\)",
        ),
    ],
)
def test_calls_that_do_not_fit(graph: GeGraph, call: Bad, message: str) -> None:
    x = data()
    with pytest.raises(RuntimeError, match=message):
        call(x)
    assert [op.type for op in graph.op] == ["Data"]


@pytest.mark.feature("11.24")
@pytest.mark.parametrize("name", ["", "Data", "a/b"])
def test_names_that_cannot_be_given(graph: GeGraph, name: str) -> None:
    x = data()
    for call in (lambda: custom_op("Add", x, 1.0, node_name=name), lambda: ge.Add(x, 1.0, node_name=name)):
        with pytest.raises(AssertionError, match=f"names? of .*operator.*{name!r}"):
            call()
    assert len(graph.op) == 1


def test_a_tensor_of_another_graph_is_refused(graph: GeGraph) -> None:
    with GeGraph(name="other").context():
        x = ge.Data(index=0, dtype=torch.float32, shape=[], node_name="elsewhere")
    with pytest.raises(RuntimeError, match="input 'x' of Relu is elsewhere:0, which is not in graph 'g'"):
        ge.Relu(x)


@pytest.mark.feature("6.34")
def test_every_operator_has_a_builder(graph: GeGraph) -> None:
    x = data()
    examples = {"Int": 1, "Float": 0.5, "Bool": True, "String": "a", "Type": DataType.DT_INT8}
    lists = {"ListInt": [1], "ListFloat": [0.5], "ListBool": [True], "ListString": ["a"], "ListListInt": [[1]]}
    values = examples | lists | {"ListType": [DataType.DT_INT8], "Tensor": const.tensor_def(torch.ones(2))}
    assert "Relu" in ir.names()
    for name in ir.names():
        operator = ir.find(name)
        assert operator is not None
        given = {row.name: values[row.kind.kind] for row in operator.attributes if row.is_required}
        sizes = {f"size_of_{output.name}": 2 for output in operator.outputs if output.is_dynamic}
        inputs = [[x, x] if operand.is_dynamic else x for operand in operator.inputs]
        ge_op(name, *inputs, **given, **sizes)
        node = graph.op[-1]
        assert node.type == name
        assert set(node.attr) == {row.name for row in operator.attributes}
        assert {attr.read(node.attr[row.name]).kind for row in operator.attributes} == {  # type: ignore[union-attr]
            row.kind.kind for row in operator.attributes
        }
    assert {"Add", "Const", "NetOutput"} <= set(dir(ge)) and ge.Add.__doc__.startswith("``Add(x1:")
    with pytest.raises(AttributeError, match="Ascend IR has no operator 'Ad'"):
        _ = ge.Ad


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("8", 8),
            ("-1", -1),
            ("1e-5f", 1e-5),
            ("1.f/4", 0.25),
            ("0.0000001", 1e-7),
            ("true", True),
            ("False", False),
        ),
        *(('"NHWC"', "NHWC"), ("'Norm'", "Norm"), ('""', ""), ('","', ","), ("{}", []), ("[0]", [0])),
        *(("{0.75f,1.33f}", [0.75, 1.33]), ("{1, 2}", [1, 2]), ("DT_INT8", DataType.DT_INT8)),
        *(("ge::UNKNOWN_RANK", [-2]), ("ge::UNKNOWN_SHAPE", [-1])),
    ],
)
def test_defaults_of_the_ir(text: str, value: Any) -> None:
    found = ir.literal(text)
    assert found == value and type(found) is type(value)


def test_defaults_that_the_ir_does_not_have() -> None:
    with pytest.raises(ValueError, match="a default of Ascend IR is a number"):
        ir.literal("one")


def test_what_fx_knows_reaches_later_readers(graph: GeGraph) -> None:
    y = ge.Relu(data())
    y.set_meta(TensorSpec.of(torch.ones(2, 3)))
    z = ge.Relu(y)
    assert z.node.input_desc[0].attr["_meta"].s == b"Tensor(dtype=DT_FLOAT, shape=[2, 3])"
