# SPDX-License-Identifier: Apache-2.0
"""The container of a GE graph: constructors, names, contexts, inputs, outputs, and the last step before loading."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from npugraph.ge import apis as ge
from npugraph.ge import attr, proto
from npugraph.ge.data_types import DataType, TensorSpec
from npugraph.ge.graph import GeGraph, Tensor, add_control, current_graph, dims_of
from npugraph.ge.normalise import normalise
from tests.python.ge import drawn_messages


def small_graph() -> GeGraph:
    graph = GeGraph(name="graph_1")
    with graph.context():
        x = ge.Data(index=0, dtype=DataType.DT_FLOAT, shape=[2, -1], node_name="arg0_1")
        ge.NetOutput([ge.Add(x, 1.0)])
    return graph


def test_a_graph_is_made_of_a_name_a_model_or_its_bytes() -> None:
    graph = small_graph()
    assert len(graph.model.graph) == 1 and graph.model.graph[0].name == graph.name == "graph_1"
    from_bytes = GeGraph(serialized_model_def=graph.SerializeToString())
    assert from_bytes.SerializeToString() == graph.SerializeToString()
    of_model = GeGraph(model_def=from_bytes.model, name="other")
    assert of_model.model is from_bytes.model and of_model.name == from_bytes.name == "other"
    assert GeGraph().name == ""


def test_constructor_arguments_that_do_not_fit() -> None:
    model = small_graph().model
    with pytest.raises(AssertionError, match="both model_def and serialized_model_def are specified"):
        GeGraph(model_def=model, serialized_model_def=model.SerializeToString())
    with pytest.raises(RuntimeError, match=r"is not the bytes of a ModelDef \(3 bytes\)"):
        GeGraph(serialized_model_def=b"\xff\xff\xff")
    with pytest.raises(RuntimeError, match=r"model_def is a ModelDef of torchair, got <class 'bytes'>; give the bytes"):
        GeGraph(model_def=model.SerializeToString())
    with pytest.raises(RuntimeError, match="made of a ModelDef with one graph, got 0"):
        GeGraph(model_def=proto.ModelDef())


@pytest.mark.feature("11.24")
def test_names_follow_the_type_and_are_unique() -> None:
    graph = small_graph()
    assert [graph.add_op("Add").name for _ in range(2)] == ["Add_1", "Add_2"]
    assert graph.add_op("Mul", "Add_3").name == "Add_3"
    assert graph.add_op("Add").name == "Add_4"
    loaded = GeGraph(serialized_model_def=graph.SerializeToString())
    assert loaded.add_op("Add").name == "Add_5"
    for name, message in (
        ("", "is a str that is not empty"),
        ("a/b", "has no '/'"),
        (3, "is a str"),
        ("Add_1", "unique"),
    ):
        with pytest.raises(AssertionError, match=message):
            graph.add_op("Add", name)  # type: ignore[arg-type]


def test_builders_add_to_the_graph_of_the_context() -> None:
    with pytest.raises(RuntimeError, match="there is no graph to add an operator to"):
        ge.Const(1)
    outer, inner = GeGraph(name="outer"), GeGraph(name="inner")
    seen: list[str] = []

    def from_another_thread() -> None:
        try:
            current_graph()
        except RuntimeError as error:
            seen.append(str(error))

    with outer:
        with inner as graph:
            assert current_graph() is graph is inner
            ge.Const(1)
        assert current_graph() is outer
        thread = threading.Thread(target=from_another_thread)
        thread.start()
        thread.join()
    assert (len(inner.op), len(outer.op), len(seen)) == (1, 0, 1)


def test_inputs_have_their_index_type_and_shape() -> None:
    graph = GeGraph(name="g")
    size = torch.SymInt  # a size that is no int is unknown
    with graph.context():
        x = ge.Data(index=3, dtype=torch.float16, shape=(2, size, -1), node_name="arg0_1")
        n = ge.Data(index=0, dtype=DataType.DT_INT64, shape=[], placement="CPU", node_name="arg1_1")
        y = ge.RefData(index=1, dtype=DataType.DT_FLOAT, shape=[-2])
    op = graph.op[0]
    assert (op.name, op.type, list(op.input), op.attr["index"].i) == ("arg0_1", "Data", [], 3)
    for desc, name in ((op.input_desc[0], "x"), (op.output_desc[0], "y")):
        assert (desc.name, desc.dtype, list(desc.shape.dim)) == (name, proto.DT_FLOAT16, [2, -1, -1])
        assert (desc.layout, desc.device_type) == ("ND", "NPU")
    assert graph.op[1].output_desc[0].device_type == "CPU" and graph.op[1].output_desc[0].HasField("shape")
    assert (x.dtype, x.rank, n.rank, y.rank, y.node.name) == (DataType.DT_FLOAT16, 3, 0, -1, "RefData")
    with (
        graph.context(),
        pytest.raises(RuntimeError, match="placement of an input of a graph is NPU or CPU, got 'GPU'"),
    ):
        ge.Data(index=0, dtype=torch.float32, shape=[], placement="GPU")


def test_outputs_have_a_spec_for_each_tensor() -> None:
    graph = GeGraph(name="g")
    with graph.context():
        x = ge.Data(index=0, dtype=torch.float32, shape=[2])
        y = ge.Relu(x)
        node = ge.NetOutput([y, x], [TensorSpec.of(torch.ones(2, 3)), TensorSpec.of(4)], dependencies=[y, y])
        with pytest.raises(RuntimeError, match="one spec for each of its 1 outputs, got 0"):
            ge.NetOutput([y], [])
        with pytest.raises(RuntimeError, match=r"output 1 of a graph is a torchair.ge.Tensor, got 2 \(int\)"):
            ge.NetOutput([y, 2])
    assert node.type == node.name == "NetOutput" and list(node.input) == ["Relu:-1", "Relu:0", "Data:0"]
    first, second = node.input_desc
    assert (first.name, first.dtype, list(first.shape.dim)) == ("input0", proto.DT_FLOAT, [2, 3])
    assert (second.name, second.dtype, list(second.shape.dim)) == ("input1", proto.DT_INT64, [])


@pytest.mark.feature("6.35")
def test_tensors_and_specs() -> None:
    graph = GeGraph(name="g")
    with graph.context():
        x = ge.Relu(ge.Data(index=0, dtype=torch.float32, shape=[2]))
    assert (x.dtype, x.rank, x.symsize, x.index) == (DataType.DT_UNDEFINED, -1, None, 0)
    assert (x.tensor, x.controller) == ("Relu:0", "Relu:-1")
    x.set_meta(TensorSpec.of(torch.ones(2, 3, dtype=torch.bfloat16)))
    assert (x.dtype, x.rank, x.symsize) == (DataType.DT_BF16, 2, [2, 3])
    assert x.desc.dtype == proto.DT_BF16 and list(x.desc.shape.dim) == []
    assert x.desc.attr["_meta"].s == b"Tensor(dtype=DT_BF16, shape=[2, 3])"
    assert repr(x) == "Tensor('Relu:0', dtype=DT_BF16, size=[2, 3])"
    spec = TensorSpec(DataType.DT_HIFLOAT8, (4, 5))
    assert (spec.dtype, spec.rank, spec.size) == (DataType.DT_HIFLOAT8, 2, (4, 5))
    kinds = {True: DataType.DT_BOOL, 7: DataType.DT_INT64, 1.5: DataType.DT_FLOAT}
    assert {number: TensorSpec.of(number).dtype for number in kinds} == kinds
    with pytest.raises(RuntimeError, match=r"a tensor or a number, got 'x' \(str\)"):
        TensorSpec.of("x")
    assert dims_of([2, torch.SymInt, -1]) == [2, -1, -1]


def test_control_inputs_are_before_data_inputs() -> None:
    graph = GeGraph(name="g")
    with graph.context():
        x = ge.Data(index=0, dtype=torch.float32, shape=[2])
        first, printed = ge.Relu(x), ge.PrintV2(x)
        last = ge.Add(x, first, dependencies=[printed, first, first])
    assert isinstance(last, Tensor) and list(last.node.input) == ["PrintV2:-1", "Relu:-1", "Data:0", "Relu:0"]
    add_control(last.node, [x, printed])
    assert list(last.node.input) == ["PrintV2:-1", "Relu:-1", "Data:-1", "Data:0", "Relu:0"]
    with pytest.raises(RuntimeError, match=r"a dependency of Add is a torchair.ge.Tensor or an OpDef, got 'x' \(str\)"):
        add_control(last.node, ["x"])


def list_of(attribute: Any) -> list[Any]:
    return [*attribute.list.s, *attribute.list.i]


def test_what_is_completed_before_a_graph_is_loaded() -> None:
    graph = GeGraph(name="g")
    with graph.context():
        host = ge.Data(index=1, dtype=torch.int64, shape=[], placement="CPU")
        x = ge.Data(index=0, dtype=torch.bfloat16, shape=[2, -1])
        y, late = ge.AddRmsNormDynamicQuant(x, x, x)[:2]
        attr.ListInt([1]).write(y.node.attr["input_layout_info"])
        y.node.attr["input_layout_info"].list.s.append(b"NCHW")
        z = ge.Relu(y)
        y.set_meta(TensorSpec.of(torch.ones(2, dtype=torch.int8)))  # after z was made
        ge.NetOutput([z, late, host], [TensorSpec.of(torch.ones(2)), TensorSpec.of(torch.ones(2)), TensorSpec.of(3)])
    normalise(graph.proto)
    norm, relu = y.node, z.node
    assert list_of(norm.attr["_input_name_key"])[:4] == [b"x1", b"x2", b"gamma", b"smooth_scale1"]
    assert list_of(norm.attr["_input_name_value"]) == list(range(6))
    assert list_of(norm.attr["_output_name_key"]) == [b"y1", b"y2", b"x", b"scale1", b"scale2"]
    assert [desc.layout for desc in norm.input_desc] == ["ND", "NCHW", "ND", "", "", ""]
    assert norm.input_desc[3].dtype == proto.DT_UNDEFINED and norm.output_desc[1].dtype == proto.DT_FLOAT
    assert (relu.input_desc[0].dtype, relu.output_desc[0].dtype) == (proto.DT_INT8, proto.DT_FLOAT)
    assert list_of(graph.attr["_input_placements"]) == [1, 0]
    assert list_of(graph.attr["_output_dtypes"]) == [DataType.DT_FLOAT, DataType.DT_FLOAT, DataType.DT_INT64]
    assert graph.attr["_executor_type"].i == 1
    once = graph.SerializeToString()
    normalise(graph.proto)
    assert graph.SerializeToString() == once


def test_a_graph_of_the_host_is_run_by_the_host() -> None:
    graph = GeGraph(name="g")
    with graph.context():
        ge.NetOutput([ge.Data(index=0, dtype=torch.float32, shape=[2], placement="CPU")])
    normalise(graph.proto)
    assert graph.attr["_executor_type"].i == 0


def test_a_graph_is_completed_before_it_is_loaded() -> None:
    graph = small_graph()
    with pytest.raises(RuntimeError, match="graph 'graph_1' has inputs on npu, and torch_npu is not imported"):
        graph.load()
    assert list(graph.attr["_input_placements"].list.i) == [1]


@settings(deadline=None, max_examples=50)
@given(drawn_messages.graphs())
def test_any_graph_is_completed_or_refused(message: Any) -> None:
    try:
        normalise(message)
    except RuntimeError as error:
        assert re.search("layout_info|has no element type", str(error))
        return
    once = message.SerializeToString(deterministic=True)
    normalise(message)
    assert message.SerializeToString(deterministic=True) == once


def test_layouts_that_do_not_fit() -> None:
    graph = small_graph()
    attr.ListInt([0, 1]).write(graph.op[2].attr["input_layout_info"])
    with pytest.raises(RuntimeError, match=r"input_layout_info of 'Add' has .*, got 0 layouts for 2 numbers"):
        normalise(graph.proto)
