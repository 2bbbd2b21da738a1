# SPDX-License-Identifier: Apache-2.0
"""FX graphs as graphs of GE: inputs, constants, writes, outputs, where operators come from, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import fx
from torch.func import functionalize

from npugraph.fx.translate.importer import InputInfo
from npugraph.ge import apis as ge
from npugraph.ge.converters import MissingConverters, register_fx_node_ge_converter
from npugraph.ge.data_types import DataType, TensorSpec
from npugraph.ge.fx.graph import Built, build
from npugraph.ge.fx.outputs import Fixed, Given, Result
from npugraph.ge.graph import Tensor
from npugraph.ge.normalise import normalise
from tests.python.ge.converted import built, formula, run, traced

aten = torch.ops.aten


def op_named(made: Built, name: str) -> Any:
    return next(op for op in made.graph.op if op.name == name)


def texts(values: Any) -> list[str]:
    return [value.decode() for value in values.list.s]


def test_inputs_are_data_in_order() -> None:
    gm = traced(lambda x, w: x @ w, torch.ones(2, 3), torch.ones(4, 3).t())
    made = build(gm, "graph_1", [InputInfo("user", "L['x']"), InputInfo("parameter", "L['self'].w")])
    assert made.graph.name == "graph_1" and made.fed == (0, 1)
    for index, (name, source, kind, dims) in enumerate(
        [("x", b"L['x']", b"", [2, 3]), ("w", b"L['self'].w", b"parameter", [3, 4])]
    ):
        op = op_named(made, name)
        desc = op.output_desc[0]
        assert (op.type, op.attr["index"].i, list(desc.shape.dim)) == ("Data", index, dims)
        assert (op.attr["_npugraph_source"].s, op.attr["_npugraph_kind"].s) == (source, kind)
        assert (desc.device_type, desc.attr["_meta"].s) == ("CPU", f"Tensor(dtype=DT_FLOAT, shape={dims})".encode())
        assert "_npugraph_sizes" not in desc.attr
    assert "_npugraph_strides" not in op_named(made, "x").output_desc[0].attr
    assert texts(op_named(made, "w").output_desc[0].attr["_npugraph_strides"]) == ["1", "3"]
    normalise(made.graph.proto)
    assert list(made.graph.attr["_input_placements"].list.i) == [0, 0]
    assert list(made.graph.attr["_output_dtypes"].list.i) == [DataType.DT_FLOAT]
    assert made.graph.attr["_executor_type"].i == 0


def test_constants_have_their_values() -> None:
    gm = traced(lambda x: x + torch.tensor([1.0, 2.0]), torch.ones(2))
    assert formula(built(gm).graph) == "Add(x, TensorMove([1.0, 2.0]))"


def test_written_inputs_are_assigned_at_the_end() -> None:
    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    inputs = [torch.ones(2, 3), torch.ones(3)]
    made = built(traced(functionalize(write, remove="mutations_and_views"), *inputs))
    assert op_named(made, "x").type == "RefData" and op_named(made, "y").type == "Data"
    assert formula(made.graph) == "Mul(Add(x, y), 2.0); Assign(x, Add(x, y))"
    (result,) = run(made, inputs)
    assert result.tolist() == [[4.0] * 3] * 2 and inputs[0].tolist() == [[2.0] * 3] * 2


def test_the_result_of_a_write_is_the_input() -> None:
    gm = traced(functionalize(lambda x: x.mul_(2), remove="mutations_and_views"), torch.ones(3))
    (write,) = gm.graph.find_nodes(op="call_function", target=aten.copy_.default)
    gm.graph.output_node().args = (write,)
    x = torch.ones(3)
    made = built(gm)
    (result,) = run(made, [x])
    assert result is x and x.tolist() == [2.0] * 3


def test_operators_of_users_have_converters(library: torch.library.Library) -> None:
    library.define("scaled(Tensor self, float factor, *, int times=1) -> Tensor")
    library.impl("scaled", lambda self, factor, times=1: self * factor * times, "CompositeExplicitAutograd")
    specs = []

    @register_fx_node_ge_converter(torch.ops.ge_test.scaled.default)
    def convert(self: Tensor, factor: float, *, times: int = 1, meta_outputs: TensorSpec) -> Tensor:
        specs.append(meta_outputs)
        return ge.Mul(self, factor * times)

    made = built(traced(lambda x: torch.ops.ge_test.scaled(x, 2.0, times=3), torch.ones(2, 3)))
    assert formula(made.graph) == "Mul(x, 6.0)"
    assert specs == [TensorSpec(DataType.DT_FLOAT, (2, 3))]
    assert run(made, [torch.ones(2, 3)])[0].tolist() == [[6.0] * 3] * 2


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("ge_test", "DEF") as made:
        yield made


def test_operators_say_where_they_come_from() -> None:
    gm = traced(lambda x: x.sum(-1) + 0.5, torch.ones(2, 3))
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = f'  File "/home/model.py", line {len(node.name)}, in forward\n    return x'
    made = built(gm)
    for name in ("Const", "ReduceSum"):
        assert op_named(made, name).attr["_npugraph_source"].s == b"/home/model.py:5 in forward"
        assert made.graph.origin_of(name) == (
            'File "/home/model.py", line 5, in forward',
            "FX Code: sum_1 = torch.ops.aten.sum.dim_IntList(x, [-1])",
        )
    desc = op_named(made, "ReduceSum").output_desc[0]
    assert desc.attr["_meta"].s == b"Tensor(dtype=DT_FLOAT, shape=[2])"
    assert desc.attr["_fx_tensor_name"].s == b"sum_1-aten.sum.dim_IntList.OUTPUT.0"


# Outputs


def outputs_of(gm: fx.GraphModule, *inputs: Any) -> tuple[Built, list[Any]]:
    made = built(gm)
    return made, run(made, inputs)


def test_results_of_the_engine_are_plain_outputs() -> None:
    made = built(traced(lambda x: (x + 1, x * 2), torch.ones(2)))
    assert made.outputs.is_plain
    assert made.outputs.entries == (Result(0), Result(1))


def test_outputs_that_the_engine_does_not_compute() -> None:
    gm = traced(lambda x: (x, x + 1), torch.ones(2))
    (node,) = gm.graph.find_nodes(op="call_function", target=aten.add.Tensor)
    (x,) = gm.graph.find_nodes(op="placeholder")
    gm.graph.output_node().args = ((None, x, 7, node, node),)
    value = torch.ones(2)
    made, results = outputs_of(gm, value)
    assert [type(entry) for entry in made.outputs.entries] == [Fixed, Given, Fixed, Result, Result]
    assert results[:3] == [None, value, 7] and results[1] is value
    assert results[3] is results[4] and results[3].tolist() == [2.0, 2.0]
    assert not made.outputs.is_plain and len(made.outputs.results) == 1


def test_views_of_inputs_share_their_memory() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    made, (view,) = outputs_of(traced(lambda x: x[1:].t().view(2, 2, 2), base), base)
    assert isinstance(made.outputs.entries[0], Given)
    assert torch.equal(view, base[1:].t().view(2, 2, 2)) and view.stride() == base[1:].t().view(2, 2, 2).stride()
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    shifted = torch.arange(24.0)[4:16].view(3, 4)  # another offset than that of the traced input
    assert torch.equal(run(made, [shifted])[0], shifted[1:].t().view(2, 2, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1).t(),
        lambda x: (x + 1)[1:],
        lambda x: (x + 1)[0].expand(2, 4),
        lambda x: (x + 1).unsqueeze(0).transpose(0, 2),
        lambda x: (x + 1)[:0, 1:],
    ],
)
def test_outputs_lie_in_memory_as_in_eager_mode(function: Any) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    expected = function(x)
    _, (found,) = outputs_of(traced(function, x), x)
    assert torch.equal(found, expected)
    assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())


def test_dense_outputs_tell_the_engine_their_strides() -> None:
    made = built(traced(lambda x: ((x + 1).t(), (x + 1)[:, ::2]), torch.ones(3, 4)))
    dense, sparse = op_named(made, "NetOutput").input_desc
    assert texts(dense.attr["_npugraph_strides"]) == ["1", "4"]
    assert "_npugraph_strides" not in sparse.attr


# What is missing


def sorted_twice(x: torch.Tensor) -> Any:
    return torch.sort(torch.sort(x)[0] + 1)[0], torch.fft.fft(x).real, torch.roll(x, 1)


@pytest.mark.usefixtures("order_is_missing")
def test_all_missing_operators_are_named_at_once() -> None:
    gm = traced(sorted_twice, torch.ones(4))
    calls = gm.graph.find_nodes(op="call_function", target=aten.sort.default)
    for line, node in enumerate(calls, start=10):
        node.meta["stack_trace"] = f'  File "model.py", line {line}, in forward\n    return x'
    with pytest.raises(MissingConverters) as caught:
        built(gm, "graph_3")
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("operators of graph 'graph_3' cannot be converted to Ascend IR:")
    refusal = "ge_converter is not implemented!"
    assert f"  torch.ops.aten.sort.default {refusal} At model.py:10 in forward, model.py:11 in forward" in lines
    assert f"  torch.ops.aten.roll.default {refusal} (its argument dims is empty) At node 'roll'" in lines
    assert isinstance(caught.value, NotImplementedError)
    nodes = [entry.node for entry in caught.value.missing]
    assert {*calls} <= {*nodes} <= {*gm.graph.nodes}
    assert nodes == [node for node in gm.graph.nodes if node in nodes]


def test_results_that_ge_has_no_type_for_are_missing() -> None:
    gm = traced(lambda x: torch.neg(x), torch.ones(2).to_sparse())
    with pytest.raises(MissingConverters, match=r"GE has no tensors of the layout torch\.sparse_coo"):
        built(gm)


def test_errors_of_converters_name_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    from npugraph.ge.converters import registry

    def wrong(self: Any, *, meta_outputs: Any) -> None:
        raise KeyError("oops")

    def too_many(self: Any, *, meta_outputs: Any) -> list[Any]:
        return [self, self]

    gm = traced(lambda x: torch.digamma(x), torch.ones(2))
    monkeypatch.setitem(registry._converters, "aten.digamma.default", wrong)
    with pytest.raises(KeyError) as caught:
        built(gm)
    assert caught.value.__notes__ == ["in the converter of aten.digamma.default, at digamma"]
    monkeypatch.setitem(registry._converters, "aten.digamma.default", too_many)
    with pytest.raises(RuntimeError, match=r"the converter returned \[Tensor.*; the node has the results"):
        built(gm)
