# SPDX-License-Identifier: Apache-2.0
"""Marks of streams become sections of a graph, and sections become marks again that mean the same."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

import npugraph
from npugraph.fx.streams.sections import Section, Strands, mark_sections
from npugraph.fx.translate.importer import InputInfo, import_graph
from npugraph.fx.translate.raise_fx import raise_graph

marks = torch.ops.npugraph_ex
STREAM, LIMITS = ["_user_stream_label"], ["_op_aicore_num", "_op_vectorcore_num"]
LABELS = ["main", "left", "right"]
label = st.sampled_from(LABELS)
event = st.sampled_from(["a", "b"])
step = st.one_of(
    st.just(("node",)),
    st.just(("view",)),
    st.tuples(st.just("stream"), label),
    st.tuples(st.just("limits"), st.integers(1, 2)),
    st.just(("exit",)),
    st.tuples(st.just("tagged_event_record_on_stream"), event, label),
    st.tuples(st.just("tagged_event_wait_on_stream"), event, label),
    st.tuples(st.just("tagged_stream_wait_stream"), label, label),
)


def graph_of(steps: list[Any]) -> fx.GraphModule:
    """Builds a graph from steps. Each node reads the result of the node before it, even if no mark orders the two.
    Waits for events that nothing has recorded are left out."""
    graph, depth = fx.Graph(), 0
    events: set[str] = set()
    last, made = graph.placeholder("x"), []
    for name, *arguments in steps:
        if name in ("node", "view"):
            target = torch.ops.aten.t.default if name == "view" else torch.ops.aten.sin.default
            last = graph.call_function(target, (last,))
            made.append(last)
        elif name in ("stream", "limits"):
            depth += 1
            scope = (STREAM, arguments) if name == "stream" else (LIMITS, [str(arguments[0])] * 2)
            graph.call_function(marks.scope_enter.default, scope)
        elif name == "tagged_event_wait_on_stream" and arguments[0] not in events:
            continue
        elif name != "exit":
            events |= {arguments[0]} if name == "tagged_event_record_on_stream" else set()
            graph.call_function(getattr(marks, name).default, tuple(arguments))
        elif depth:
            depth -= 1
            graph.call_function(marks.scope_exit.default)
    for _ in range(depth):
        graph.call_function(marks.scope_exit.default)
    graph.output(tuple(made))
    with FakeTensorMode() as mode:
        value = mode.from_tensor(torch.ones(2, 2))
        for node in graph.nodes:
            if node.op == "placeholder" or node in made:
                node.meta["val"] = value
    return fx.GraphModule(torch.nn.Module(), graph)


def raised(gm: fx.GraphModule, strands: Strands | None) -> fx.GraphModule:
    imported = import_graph(gm, "drawn", [InputInfo("user", "x")], strands)
    return raise_graph(imported.graph, {}, strands.streams if strands else ())


def meaning(gm: fx.GraphModule, strands: Strands | None) -> dict[str, Any]:
    """Returns for each node that has a task its stream, its limits, and the nodes that are done before it."""
    if strands is None:
        for node in gm.graph.nodes:
            node.meta["section"] = 0
        strands = Strands([Section(0, set(), (0, 0))], [{STREAM[0]: "main"}])
    before: list[set[int]] = []
    for i, section in enumerate(strands.sections):
        own = [j for j in range(i) if strands.sections[j].stream == section.stream]
        before.append({k for j in [*section.after, *own] for k in (*before[j], j)})
    nodes = [node for node in gm.graph.nodes if node.target is torch.ops.aten.sin.default]
    found = {}
    for position, node in enumerate(nodes):
        section = strands.sections[node.meta["section"]]
        done = {
            other.name
            for i, other in enumerate(nodes)
            if other.meta["section"] in before[node.meta["section"]]
            or (other.meta["section"] == node.meta["section"] and i < position)
        }
        found[node.name] = (strands.streams[section.stream], section.limits, done)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=25))
@pytest.mark.feature("2.01", "2.16")
def test_sections_become_marks_of_the_same_meaning(steps: list[Any]) -> None:
    gm = graph_of(steps)
    strands = mark_sections(gm)
    again = raised(gm, strands)
    assert meaning(again, mark_sections(again)) == meaning(gm, strands)
    assert strands is not None or "npugraph_ex" not in again.code


def two_streams(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    start = x.exp().clone()
    marks.tagged_stream_wait_stream("side", "main")
    marks.scope_enter([*STREAM, "_user_stream_id"], ["side", "7"])
    y = (start @ a).tanh()
    marks.scope_enter(LIMITS, ["1", "2"])
    y = y @ a
    marks.scope_exit()
    marks.tagged_event_record("done")
    marks.scope_exit()
    z = (start @ b).tanh()
    marks.tagged_event_wait("done")
    return y + z


def log_of(run: Any, *args: torch.Tensor) -> list[Any]:
    with npugraph.task_log() as log:
        run(*args)
    return [(r.task, r.stream, list(r.waits), dict(r.limits)) for r in sorted(log, key=lambda record: record.task)]


@pytest.mark.feature("2.01", "9.01")
def test_every_stage_shows_strands_and_compiles_to_the_same() -> None:
    args = [torch.randn(8, 8) for _ in range(3)]
    torch._dynamo.reset()
    run = torch.compile(two_streams, backend="npugraph_ex", fullgraph=True)
    with torch.no_grad():
        want = run(*args)
        artifact = npugraph.artifacts()[-1]
        *graphs, _, _ = artifact.stages
        assert graphs[0] == "import"
        for stage in graphs:
            gm = artifact.to_fx(stage)
            torch.testing.assert_close(gm(*args), (want,))
            assert "scope_enter.default(['_user_stream_label', '_user_stream_id'], ['side', '7'])" in gm.code
            assert "scope_enter.default(['_op_aicore_num', '_op_vectorcore_num'], ['1', '2'])" in gm.code
        again = torch.compile(artifact.to_fx(), backend="npugraph_ex", fullgraph=True)
        torch.testing.assert_close(again(*args), (want,))
        assert log_of(again, *args) == log_of(run, *args)
        told = [(i, task.stream, task.waits, dict(task.limits)) for i, task in enumerate(artifact.tasks)]
        assert told == log_of(run, *args)
