# SPDX-License-Identifier: Apache-2.0
"""Dumps of GE graphs: text that is read back, a view for viewers of TensorFlow, scripts that build the graph again."""

from __future__ import annotations

import datetime
import functools
import os
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given, settings

from npugraph.ge import apis as ge
from npugraph.ge import attr, const, dumps, ir, proto
from npugraph.ge.builders import custom_op, ge_op
from npugraph.ge.data_types import DataType, TensorSpec
from npugraph.ge.dumps import files
from npugraph.ge.graph import GeGraph
from npugraph.ge.normalise import normalise
from tests.python.ge import drawn_messages
from tests.python.ge.protoc import descriptor_set

# What viewers know of a GraphDef of TensorFlow, without its types of values that a dump has no use for.
TENSORFLOW = """
syntax = "proto3";
package tensorflow;
message AttrValue { bytes s = 2; int64 i = 3; }
message NodeDef { string name = 1; string op = 2; repeated string input = 3; map<string, AttrValue> attr = 5; }
message GraphDef { repeated NodeDef node = 1; }
"""


def bits(message: Any) -> bytes:
    return message.SerializeToString(deterministic=True)


def rebuilt(script: str) -> GeGraph:
    namespace: dict[str, Any] = {}
    exec(compile(script, "dump.py", "exec"), namespace)
    return namespace["graph"]


@functools.cache
def tensorflow_graph() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorSet.FromString(descriptor_set(TENSORFLOW, "graph.proto")).file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.GraphDef"))


def graph_of_all_kinds() -> GeGraph:
    graph = GeGraph(name="graph_3")
    with graph.context():
        x = ge.Data(index=0, dtype=torch.float32, shape=[2, -1], node_name="arg0_1")
        n = ge.Data(index=1, dtype=torch.int64, shape=[], placement="CPU", node_name="arg1-1")
        with graph.fx_node("mul: f32[2, s0] = aten.mul(x, 2.0)", ['File "model.py", line 3, in forward', "x * 2.0"]):
            y = ge.Mul(x, 2.0)
            y.set_meta(TensorSpec.of(torch.ones(2, 3)))
        with graph.fx_node("split = aten.split(mul, 1)"):
            parts = ge.Split(0, y, num_split=2, size_of_y=2)
        ge.Const(torch.full([65], float("nan")), readable=False)
        ge.Const([[], []], dtype=DataType.DT_BF16)
        ge.Const([float("inf"), 0.1])
        values, indices = ge.TopKV2(parts[1], 1, dependencies=[ge.PrintV2(y), n])
        own = custom_op(
            "Own",
            inputs={"x": values, "none": None, "xs": [indices, x]},
            outputs=["x", ("y", 2)],
            attrs={"f": attr.Float(float("inf")), "t": attr.ListDataType([DataType.DT_BF16]), "s": attr.Str('"\n')},
        )
        lambd = ge_op("Exponential", x, **{"lambda": 2.0})
        own[0].node.attr["_raw"].s = b"\xff"
        ge.NetOutput([own[0], own[1][1], lambd, ge.Cast(x, dst_type=torch.bfloat16)], dependencies=[parts[0]])
    graph.attr["_f"].f = 0.5
    return graph


def test_text_is_read_back() -> None:
    graph = graph_of_all_kinds()
    text = dumps.dump(graph, "txt")
    assert bits(text_format.Parse(text, proto.GraphDef())) == bits(graph.proto)
    assert text.startswith('name: "graph_3"\nop {')


@settings(deadline=None, max_examples=50)
@given(drawn_messages.graphs())
def test_any_graph_has_dumps(message: Any) -> None:
    graph = GeGraph(model_def=proto.ModelDef(graph=[message]))
    before = graph.SerializeToString()
    assert bits(text_format.Parse(dumps.dump(graph, "txt"), proto.GraphDef())) == bits(graph.proto)
    assert len(text_format.Parse(dumps.dump(graph, "pbtxt"), tensorflow_graph()()).node) == len(graph.op)
    assert bits(rebuilt(dumps.dump(graph, "py")).proto) == bits(graph.proto)
    assert graph.SerializeToString() == before


@pytest.mark.parametrize("is_normalised", [False, True])
def test_a_script_builds_the_graph_again(is_normalised: bool) -> None:
    graph = graph_of_all_kinds()
    if is_normalised:
        normalise(graph.proto)
    script = dumps.dump(graph, "py")
    assert bits(rebuilt(script).proto) == bits(graph.proto)
    assert rebuilt(script).name == "graph_3"


def mutated(graph: GeGraph, draw: Any) -> None:
    """What passes and other programs do to a graph."""
    op = draw(st.sampled_from(list(graph.op)))
    other = draw(st.sampled_from(list(graph.op)))
    part = draw(st.sampled_from(["attr", "input", "desc", "name", "type", "order", "all"]))
    if part == "attr" and op.attr:
        del op.attr[draw(st.sampled_from(sorted(op.attr)))]
    elif part == "input" and op.input:
        op.input[draw(st.integers(0, len(op.input) - 1))] = draw(st.sampled_from(["", f"{other.name}:0", "a:9"]))
    elif part == "desc":
        descs = draw(st.sampled_from([op.input_desc, op.output_desc]))
        descs.add().CopyFrom(draw(drawn_messages.descs()))
    elif part == "name":
        op.name = other.name
    elif part == "type":
        op.type = other.type
    elif part == "order":
        graph.op.sort(key=lambda op: op.type)
    elif part == "all":
        op.Clear()


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_script_builds_changed_graphs_again(data: st.DataObject) -> None:
    graph = graph_of_all_kinds()
    for _ in range(data.draw(st.integers(1, 4))):
        mutated(graph, data.draw)
    assert bits(rebuilt(dumps.dump(graph, "py")).proto) == bits(graph.proto)


def test_a_script_consists_of_calls_of_builders() -> None:
    graph = graph_of_all_kinds()
    lines = [line.strip() for line in dumps.dump(graph, "py").splitlines()]
    place = lines.index("Mul = ge.Mul(arg0_1, Const, node_name='Mul')")
    assert lines[place - 4 : place] == [
        '# File "model.py", line 3, in forward',
        "# x * 2.0",
        "## FX Code: mul: f32[2, s0] = aten.mul(x, 2.0)",
        "Const = ge.Const(2.0, dtype=DataType.DT_FLOAT, node_name='Const')",
    ]
    assert "Split = ge.Split(Const_1, Mul, num_split=2, size_of_y=2, node_name='Split')" in lines
    assert "TopKV2 = ge.TopKV2(Split[1], Const_5, sorted=True, dim=-1, largest=True, " in "\n".join(lines)
    assert sum(line.startswith("Const_") for line in lines) == 5
    assert not any("graph.add_op" in line or "put(graph.op[-1], " in line for line in lines)


def test_a_script_of_every_operator() -> None:
    graph = GeGraph(name="g")
    values = {
        **{"Int": -3, "Float": 0.1, "Bool": True, "String": "a'\"", "Type": DataType.DT_BF16, "ListInt": [1, -2]},
        **{"ListFloat": [0.1], "ListBool": [True], "ListString": ["", "é"], "ListListInt": [[1], []]},
        **{"ListType": [DataType.DT_INT8], "Tensor": const.tensor_def(torch.ones(2))},
    }
    with graph.context():
        x = ge.Data(index=0, dtype=torch.float32, shape=[2])
        assert "Relu" in ir.names()
        for name in ir.names():
            operator = ir.find(name)
            assert operator is not None
            inputs = [
                [x] * 2 if operand.is_dynamic else x if operand.arity is ir.Arity.REQUIRED else None
                for operand in operator.inputs
            ]
            given = {row.name: values[row.kind.kind] for row in operator.attributes}
            sizes = {f"size_of_{output.name}": 2 for output in operator.outputs if output.is_dynamic}
            ge_op(name, *inputs, **given, **sizes, node_name=f"op-{name}")
    assert bits(rebuilt(dumps.dump(graph, "py")).proto) == bits(graph.proto)


def test_the_view_shows_operators_and_edges() -> None:
    graph = graph_of_all_kinds()
    view = text_format.Parse(dumps.dump(graph, "pbtxt"), tensorflow_graph()())
    nodes = {node.name: node for node in view.node}
    assert [node.name for node in view.node] == [op.name for op in graph.op]
    topk = nodes["TopKV2"]
    assert topk.op == "TopKV2" and list(topk.input) == ["Split:1", "Const_5:0", "^PrintV2", "^arg1-1"]
    assert (topk.attr["dim"].s, topk.attr["sorted"].s) == (b"-1", b"True")
    assert topk.attr["[o]indices"].s.startswith(b'name: "indices"') and "[i]x" in topk.attr
    assert nodes["Mul"].attr["[o]y"].s.startswith(b'name: "y" dtype: DT_FLOAT')
    assert nodes["Const"].attr["_readable_value"].s == b"2.0"
    assert nodes["Const_2"].attr["value"].s.endswith(b"data: 260 bytes")
    assert list(nodes["Own"].input) == ["TopKV2:0", "TopKV2:1", "arg0_1:0"]


def test_files_of_dumps(tmp_path: Path) -> None:
    graph = graph_of_all_kinds()
    time = datetime.datetime(2026, 11, 25, 1, 2, 3, 45)
    name = files.of_graph("original", 3, rank=1, kind="py", time=time)
    assert name == f"dynamo_original_graph_3_rank_1_pid_{os.getpid()}_ts_20261125010203000045.py"
    now = files.of_graph("optimized", 1, 0, "txt")
    assert re.fullmatch(rf"dynamo_optimized_graph_1_rank_0_pid_{os.getpid()}_ts_\d{{20}}\.txt", now)
    for kind in dumps.KINDS:
        dumps.write(graph, tmp_path / f"graph.{kind}", kind)
        assert (tmp_path / f"graph.{kind}").read_text() == dumps.dump(graph, kind)
    with pytest.raises(ValueError, match="a dump of a graph is of kind txt, pbtxt, py, got 'json'"):
        dumps.dump(graph, "json")


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=8), st.text(max_size=8), st.binary(max_size=8))
def test_any_text_is_quoted(name: str, code: str, value: bytes) -> None:
    graph = GeGraph(name="g")
    with graph.context(), graph.fx_node(code, [name]):
        graph.op.add(name=name, type=name).attr[name].s = value
        ge.PrintV2(ge.Data(index=0, dtype=torch.float32, shape=[]))
    assert bits(rebuilt(dumps.dump(graph, "py")).proto) == bits(graph.proto)
    node = text_format.Parse(dumps.dump(graph, "pbtxt"), tensorflow_graph()()).node[0]
    assert (node.name, node.op, node.attr[name].s) == (name, name, value.decode(errors="replace").encode())
