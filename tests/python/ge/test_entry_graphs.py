# SPDX-License-Identifier: Apache-2.0
"""Graphs that programs build, load, compile and run themselves: GeGraph, GeConcreteGraph, TorchNpuGraph."""

from __future__ import annotations

import logging
import re
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import torchair
from npugraph.fx.compile_observer import CompileObserver
from npugraph.ge import proto
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.fx2ge_converter import GeConcreteGraph
from torchair._ge_concrete_graph.ge_graph import GeGraph
from torchair.core._backend import TorchNpuGraph, initialize_graph_engine
from torchair.core._torchair import (
    FinalizeGraphEngine,
    InitializeGraphEngine,
    TorchNpuGraphBase,
    check_cann_compat,
    get_registered_ir_def,
)
from torchair.ge import DataType

X, Y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]])


def add(graph: Any, columns: int = 2) -> Any:
    """Makes ``graph`` that of x + y, for any number of rows."""
    with graph.context():
        x, y = (
            ge.Data(index=i, dtype=DataType.DT_FLOAT, shape=[-1, columns], placement="CPU", node_name=name)
            for i, name in enumerate("xy")
        )
        ge.NetOutput([ge.Add(x, y)])
    return graph


@pytest.mark.feature("6.40", "6.42")
def test_a_graph_has_one_model_and_one_executor() -> None:
    graph = add(GeGraph(name="sum"))
    forms = [
        graph,
        GeGraph(serialized_model_def=graph.SerializeToString()),
        GeGraph(model_def=proto.ModelDef.FromString(graph.SerializeToString()), name="again"),
    ]
    for form in forms:
        assert isinstance(form.executor, TorchNpuGraph) and form.executor.name == form.name
        form.load({"ge.topoSortingMode": "1"})
        form.compile()
        (result,) = form.run([X, Y])
        assert torch.equal(result, X + Y)
    assert [form.name for form in forms] == ["sum", "sum", "again"]


@pytest.mark.feature("6.42")
def test_the_life_of_a_graph_in_the_engine() -> None:
    model = add(GeGraph(name="sum")).SerializeToString()
    graph = TorchNpuGraphBase("sum")
    load = (model, {}, [0, 0], [0], 0)
    for call in ("compile", "summary"):
        with pytest.raises(RuntimeError, match=f"graph 'sum' is created, and {call} takes a graph that is "):
            getattr(graph, call)()
    with pytest.raises(RuntimeError, match="is created, and run takes a graph that is compiled; the order is load, c"):
        graph.run(([X, Y], [], None))
    graph.load(*load)
    graph.load(*load)
    graph.set_hint_shape([[4, 2], [4, 2]], [])
    with pytest.raises(ValueError, match="was loaded with 2 inputs, and the hint has shapes of 1"):
        graph.set_hint_shape([[4, 2]], [])
    graph.compile()
    with pytest.raises(RuntimeError, match="is compiled, and load takes a graph that is created or loaded"):
        graph.load(*load)
    for rows in (1, 3):
        (result,) = graph.run(([X.repeat(rows, 1), Y.repeat(rows, 1)], [], None))
        assert torch.equal(result, (X + Y).repeat(rows, 1))
    assert graph.summary()["arena_bytes"] >= 0
    with pytest.raises(RuntimeError, match="graph 'sum' was compiled; auto_tune comes between load and compile"):
        graph.auto_tune(([X, Y], None))


def test_assigned_outputs_take_the_results() -> None:
    graph = add(GeGraph(name="sum"))
    graph.load()
    graph.compile()
    own = torch.zeros(1, 2)
    (result,) = graph.run([X, Y], [own])
    assert result is own and torch.equal(own, X + Y)
    (result,) = graph.run([X, own], [None])
    assert torch.equal(result, X + own) and result is not own
    with pytest.raises(ValueError, match="graph 'sum' has 1 result, got 2 assigned outputs"):
        graph.run([X, Y], [own, own])


def counting(columns: int = 2) -> GeGraph:
    """A graph that adds 1 to its input, in place, and returns twice the sum."""
    graph = GeGraph(name="count")
    with graph.context():
        x = ge.RefData(index=0, dtype=DataType.DT_FLOAT, shape=[-1, columns], placement="CPU", node_name="x")
        written = ge.Assign(x, ge.Add(x, ge.Const(torch.ones(1, 2))))
        ge.NetOutput([ge.Add(x, x)], dependencies=[written])
    graph.load()
    graph.compile()
    return graph


@pytest.mark.parametrize(
    ("assigned", "message"),
    [
        ([torch.zeros(1, 2), torch.zeros(1, 2)], "has 1 result, got 2 assigned outputs"),
        ([torch.zeros(2, 2)], r"result 0 of graph 'count' is torch\.float32 of sizes \[1, 2\], .* \[2, 2\]"),
        ([torch.zeros(1, 2, 1)], r"is torch\.float32 of sizes \[1, 2\], .* got torch\.float32 of sizes \[1, 2, 1\]"),
        ([torch.zeros(1, 2, dtype=torch.int64)], r"is torch\.float32 of sizes .*, got torch\.int64 of sizes \[1, 2\]"),
    ],
)
def test_assigned_outputs_that_do_not_fit_leave_inputs_as_they_are(assigned: list[Any], message: str) -> None:
    graph, x = counting(), X.clone()
    with pytest.raises(ValueError, match=message):
        graph.run([x], assigned)
    assert torch.equal(x, X) and not any(output.any() for output in assigned)
    own = torch.zeros(1, 2)
    graph.run([x], [own])
    assert torch.equal(x, X + 1)


def test_an_assigned_output_is_compared_with_computed_sizes_before_it_is_written() -> None:
    graph = GeGraph(name="twice")
    with graph.context():
        x = ge.Data(index=0, dtype=DataType.DT_FLOAT, shape=[-1, 2], placement="CPU", node_name="x")
        ge.NetOutput([ge.Neg(x), ge.ConcatD([x, x], concat_dim=0, N=2)])
    graph.load()
    graph.compile()
    outputs = [torch.zeros(1, 2), torch.zeros(1, 2)]
    with pytest.raises(ValueError, match=r"result 1 of graph 'twice' is torch\.float32 of sizes \[2, 2\], .*\[1, 2\]"):
        graph.run([X], outputs)
    assert not any(output.any() for output in outputs)
    with pytest.raises(ValueError, match=r"result 1 of graph 'twice' is torch\.float32 of sizes \[\?, 2\], .*\[2\]"):
        graph.run([X], [None, torch.zeros(2)])
    outputs[1] = torch.zeros(2, 2)
    graph.run([X], outputs)
    assert torch.equal(outputs[1], X.repeat(2, 1))


def test_placements_that_contradict_each_other() -> None:
    model = add(GeGraph(name="sum")).SerializeToString()
    graph = TorchNpuGraphBase("sum")
    with pytest.raises(ValueError, match=r"are 0 \(host\) or 1 \(npu\), got \[0, 2\] and 0 for graph 'sum'"):
        graph.load(model, {}, [0, 2], [0], 0)
    with pytest.raises(ValueError, match=r"input 1 of graph 'sum' is placed on npu \(1\), and its executor is one of"):
        graph.load(model, {}, [0, 1], [0], 0)
    graph.load(model, {}, [0, 0], [0], 0)
    graph.compile()
    with pytest.raises(ValueError, match="graph 'sum' has 2 inputs, got 1"):
        graph.run(([X], [], None))


@pytest.mark.feature("6.42", "6.43")
def test_a_concrete_graph_is_a_function(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    config = torchair.CompilerConfig()
    graph = add(GeConcreteGraph(config, name="mine"))
    assert isinstance(graph.graph, GeGraph) and graph.graph.name == "mine" and graph.config is config
    assert graph.is_dynamic and not graph.is_compiled
    with caplog.at_level(logging.INFO, torchair.logger.name):
        assert torch.equal(graph(X, Y)[0], X + Y)
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    wanted = [
        r"start compile graph: mine\.",
        r"Compiling concrete graph mine with options:\n    ge\.exec\.atomicCleanPolicy = 1\n(    .*\n)*    .*",
        r"Compile Graph mine consume: \d+ ms\.",
        r"Dynamic FX graph compiled to dynamic Ascend GE graph",
        r"end compile graph: mine and start run graph\.",
    ]
    assert all(re.fullmatch(want, text) for want, text in zip(wanted, texts[-5:], strict=True)), texts
    graph.dump(tmp_path / "mine.pbtxt")
    assert 'op: "Add"' in (tmp_path / "mine.pbtxt").read_text()
    with pytest.raises(ValueError, match="txt, pbtxt, py, got 'json'"):
        graph.dump(tmp_path / "mine.json")


def test_threads_may_share_the_first_call(caplog: pytest.LogCaptureFixture) -> None:
    graph = add(GeConcreteGraph(torchair.CompilerConfig(), name="shared"))
    barrier = threading.Barrier(4)

    def call(value: int) -> torch.Tensor:
        barrier.wait()
        return graph(X * value, Y)[0]

    with caplog.at_level(logging.INFO, torchair.logger.name), ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call, range(4)))
    assert all(torch.equal(result, X * value + Y) for value, result in enumerate(results))
    assert caplog.text.count("start compile graph: shared.") == 1


def test_a_graph_that_does_not_compile_can_be_mended() -> None:
    graph = add(GeConcreteGraph(torchair.CompilerConfig(), name="mine"))
    (op,) = (op for op in graph.graph.op if op.type == "Add")
    op.type = "Plus"
    for _ in range(2):
        with pytest.raises(ValueError, match="operator 'Add' of type Plus: Ascend IR has no operator of this type"):
            graph(X, Y)
    op.type = "Mul"
    assert torch.equal(graph(X, Y)[0], X * Y)


@pytest.mark.feature("6.03")
@pytest.mark.parametrize("kind", ["txt", "pbtxt", "py"])
def test_graphs_are_dumped_before_and_after_their_passes(tmp_path: Path, kind: str) -> None:
    config = torchair.CompilerConfig()
    folder = tmp_path / "new" / "folder"
    config.debug.graph_dump.type = kind
    config.debug.graph_dump.path = str(folder)
    graph = add(GeConcreteGraph(config, name="graph_17"))
    assert not folder.exists()
    graph(X, Y)
    names = sorted(re.sub(r"pid_\d+_ts_\d+", "*", path.name) for path in folder.iterdir())
    assert names == [f"dynamo_{stage}_graph_17_rank_0_*.{kind}" for stage in ("optimized", "original")]


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "py"
    config.debug.graph_dump.path = str(tmp_path / "folder")
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(NotADirectoryError, match=r"dumps are written to a directory, and '.*folder' is none"):
        add(GeConcreteGraph(config))(X, Y)


def fail_once(graph: GeConcreteGraph) -> None:
    (op,) = (op for op in graph.graph.op if op.type == "Add")
    op.type = "Plus"
    with pytest.raises(ValueError, match="Ascend IR has no operator of this type"):
        graph(X, Y)
    op.type = "Add"


@pytest.mark.parametrize("before", [fail_once, GeConcreteGraph.optimize_graph_without_runtime])
def test_the_original_graph_is_dumped_once(tmp_path: Path, before: Callable[[GeConcreteGraph], None]) -> None:
    """And not again, when its passes have run."""
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = str(tmp_path)
    graph = add(GeConcreteGraph(config))
    before(graph)
    graph(X, Y)
    (original,), (optimized,) = (list(tmp_path.glob(f"dynamo_{stage}_*")) for stage in ("original", "optimized"))
    assert "_input_name_key" not in original.read_text() and "_input_name_key" in optimized.read_text()


def test_what_a_compile_needs_is_not_kept() -> None:
    observer, owner = CompileObserver(), CompileObserver()
    graph = add(GeConcreteGraph(torchair.CompilerConfig(), observer=observer, noted=lambda *_, keep=owner: None))
    references = [weakref.ref(observer), weakref.ref(owner)]
    del observer, owner
    assert None not in [reference() for reference in references]
    graph(X, Y)
    assert [reference() for reference in references] == [None, None]


@pytest.mark.feature("11.18")
def test_options_of_the_process_hold_until_the_engine_ends() -> None:
    FinalizeGraphEngine()
    initialize_graph_engine()
    initialize_graph_engine({"ge.deterministic": "0"})
    with pytest.raises(ValueError, match=r"hold for the process and cannot change: ge\.deterministic='7' \(was '0'\)"):
        initialize_graph_engine({"ge.deterministic": "7"})
    FinalizeGraphEngine()
    InitializeGraphEngine({"ge.deterministic": "7"})
    FinalizeGraphEngine()


@pytest.mark.feature("11.18")
def test_a_second_graph_with_other_options_of_the_process_is_an_error() -> None:
    config = torchair.CompilerConfig()
    add(GeConcreteGraph(config, name="first"))(X, Y)
    config.ge_config.export_compile_stat = "0"
    second = add(GeConcreteGraph(config, name="second"))
    with pytest.raises(ValueError, match=r"change: ge\.exportCompileStat='0' \(was None\); .*\.FinalizeGraphEngine"):
        second(X, Y)
    config.ge_config.export_compile_stat = "2"
    assert torch.equal(second(X, Y)[0], X + Y)


@pytest.mark.feature("11.18")
def test_settings_of_torch_are_those_of_the_first_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    FinalizeGraphEngine()
    add(GeConcreteGraph(torchair.CompilerConfig(), name="first"))(X, Y)
    monkeypatch.setenv("ASCEND_DEVICE_ID", "1")
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(add(GeConcreteGraph(torchair.CompilerConfig(), name="second"))(X, Y)[0], X + Y)
        initialize_graph_engine()
        with pytest.raises(ValueError, match=r"cannot change: ge\.deterministic='7' \(was '0'\)"):
            initialize_graph_engine({"ge.deterministic": "7"})
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.feature("11.18")
def test_an_option_in_place_of_a_setting_holds_for_all_graphs() -> None:
    FinalizeGraphEngine()
    initialize_graph_engine({"ge.deterministic": "7"})
    assert torch.equal(add(GeConcreteGraph(torchair.CompilerConfig(), name="later"))(X, Y)[0], X + Y)
    with pytest.raises(ValueError, match=r"cannot change: ge\.deterministic='8' \(was '7'\)"):
        initialize_graph_engine({"ge.deterministic": "8"})
    FinalizeGraphEngine()


def test_what_is_registered() -> None:
    assert get_registered_ir_def("AxpyV2") == (
        True,
        [("x1", "required"), ("x2", "required"), ("alpha", "required")],
        [("y", "required")],
        [],
    )
    assert get_registered_ir_def("Pack")[1:3] == ([("x", "dynamic")], [("y", "required")])
    assert get_registered_ir_def("Plus") == (False, [], [], [])
    assert check_cann_compat("MatMulV2", ["bias"], ["transpose_x1"])
    assert not check_cann_compat("MatMulV2", ["x1"])  # which is not optional
    assert not check_cann_compat("MatMulV2", [], ["transpose"])
    assert not check_cann_compat("Plus")


def test_outputs_of_a_graph_are_its_results() -> None:
    graph = GeConcreteGraph(torchair.CompilerConfig(), name="two")
    assert graph.outputs == []
    with graph.context():
        x = ge.Data(index=0, dtype=DataType.DT_FLOAT, shape=[2], placement="CPU")
        parts = ge.Split(ge.Const(0, dtype=DataType.DT_INT32), x, num_split=2, size_of_y=2)
        ge.NetOutput([parts[1], x, parts[0]])
    assert [(out.node.type, out.index) for out in graph.outputs] == [("Split", 1), ("Data", 0), ("Split", 0)]
    assert [result.tolist() for result in graph(X[0])] == [[2.0], [1.0, 2.0], [1.0]]


def test_passes_run_on_request_and_change_no_result() -> None:
    graph = add(GeConcreteGraph(torchair.CompilerConfig(), name="mine"))
    assert "_input_placements" not in graph.graph.attr
    graph.optimize_graph_without_runtime(X, Y)
    passed = graph.graph.SerializeToString()
    assert list(graph.graph.attr["_input_placements"].list.i) == [0, 0]
    assert torch.equal(graph(X, Y)[0], X + Y)
    assert graph.graph.SerializeToString() == passed


def test_graphs_are_tuned_if_the_configuration_asks_for_it() -> None:
    config = torchair.CompilerConfig()
    assert add(GeConcreteGraph(config, name="mine")).should_auto_tune is False
    config.aoe_config.aoe_mode = "2"
    assert add(GeConcreteGraph(config, name="mine")).should_auto_tune is False  # its sizes are unknown
    graph = add(GeGraph(name="sum"))
    graph.load()
    assert graph.auto_tune([X, Y]) == []  # it has no products
    graph.compile()
    assert torch.equal(graph.run([X, Y])[0], X + Y)


def test_what_a_graph_does_not_have_says_why() -> None:
    graph = GeConcreteGraph(torchair.CompilerConfig())
    names = "codegen export parse_input parse_node parse_output parse_symlist update_graph_with_runtime"
    for name in (*names.split(), "converter_context"):
        with pytest.raises(torchair.NotHereError, match=rf"^GeConcreteGraph\.{name} is not here: \w"):
            getattr(graph, name)
        assert not hasattr(graph, name)
    with pytest.raises(AttributeError, match="'GeConcreteGraph' object has no attribute 'parse'"):
        graph.parse  # noqa: B018
