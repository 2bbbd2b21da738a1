# SPDX-License-Identifier: Apache-2.0
"""What an artifact tells about itself, the task log, the pools, the trace, the counters."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
from tests.python.backend.checks import compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def step(x, cache, w):
    h = torch.softmax(x @ w, -1)
    cache.copy_(cache + h)
    return h @ w


def compiled_step(**arguments):
    compiled = compile_ex(step, **arguments)
    inputs = torch.randn(16, 32), torch.zeros(16, 32), torch.randn(32, 32)
    compiled(*inputs)
    (artifact,) = npugraph.artifacts()
    return compiled, inputs, artifact


def test_tasks() -> None:
    compiled, inputs, artifact = compiled_step()
    compiled(*inputs)
    compiled(*inputs)
    tasks = artifact.tasks
    assert any("softmax" in task.name for task in tasks)
    for task in tasks:
        assert task.kind in ("kernel", "aten", "copy", "python")
        assert task.stream == 0
        assert task.origin
        assert re.fullmatch(rf"{re.escape(__file__)}:\d+ in step", task.source)
        assert bool(task.reason) == (task.kind != "kernel")
        assert task.bytes_read > 0
        assert task.bytes_written >= 16 * 32 * 4
        assert task.nanoseconds > 0
    softmax = next(task for task in tasks if "softmax" in task.name)
    assert softmax.bytes_read == softmax.bytes_written == 16 * 32 * 4


def test_stages_and_program_text() -> None:
    _, _, artifact = compiled_step()
    assert artifact.stages[0] == "import"
    for stage in artifact.stages:
        assert artifact.graph(stage).startswith("npugraph.graph 1 @step_0")
    assert artifact.graph() == artifact.graph(artifact.stages[-1])
    assert "aten.copy_" in artifact.graph("import")
    assert "aten.copy_(" not in artifact.graph()
    with pytest.raises(ValueError, match='unknown stage "nope"; the stages of step_0 are: import, '):
        artifact.graph("nope")
    program = artifact.program()
    assert program.startswith("npugraph.program 1 @step_0")
    for task in artifact.tasks:
        assert f'"{task.name}"' in program


def test_instances_and_counters() -> None:
    compiled, inputs, artifact = compiled_step(dynamic=True)
    compiled(*inputs)
    compiled(torch.randn(5, 32), torch.zeros(5, 32), inputs[2])
    latest, first = artifact.instances
    assert (latest.captures, latest.replays) == (1, 1)
    assert (first.captures, first.replays) == (1, 2)
    assert 5 in latest.symbols.values()
    assert 16 in first.symbols.values()
    for name, value in latest.symbols.items():
        assert f"{name}={value}" in latest.key
    found = artifact.counters
    assert found["compiles"] == 1
    assert found["captures"] == 2
    assert found["replays"] == 3
    assert found["cache_hits"] == 1
    assert found["cache_misses"] == 2
    assert found["kernel_builds"] + found["kernel_hits"] == sum(task.kind == "kernel" for task in artifact.tasks)
    assert {"recaptures.new_symbols", "recaptures.evicted", "recaptures.forced"} <= set(found)
    for stage in artifact.stages[1:]:
        assert found[f"pass.{stage.split('.')[0]}"] >= 0
    assert counters["npugraph_ex"]["compiles"] == 1


def test_memory() -> None:
    _, inputs, artifact = compiled_step()
    memory = artifact.memory
    assert set(memory) == {
        "arena_bytes",
        "lower_bound_bytes",
        "heap_bytes",
        "scratch_bytes",
        "derived_constant_bytes",
        "copied_bytes_per_replay",
        "bound_bytes_per_call",
    }
    assert memory["arena_bytes"] >= memory["lower_bound_bytes"] >= 16 * 32 * 4
    assert memory["copied_bytes_per_replay"] == 0
    assert memory["heap_bytes"] >= 16 * 32 * 4
    assert memory["bound_bytes_per_call"] == sum(t.nbytes for t in inputs)


def test_phases() -> None:
    _, _, artifact = compiled_step()
    names = [name for name, _ in artifact.phases]
    assert names == ["aot_autograd", "import", "passes", "lower", "plan", "build"]
    assert all(milliseconds >= 0 for _, milliseconds in artifact.phases)


def test_partitions_and_repr() -> None:
    compiled = compile_ex(lambda x: torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1)
    with pytest.warns(npugraph.NpugraphWarning, match="cond"):
        compiled(torch.ones(3))
    (artifact,) = npugraph.artifacts()
    (partition,) = artifact.partitions
    assert partition.node == "cond"
    assert (partition.target, partition.runs_as) == ("cond", "python")
    assert partition.source.startswith(__file__)
    assert partition.reason == "cond is not an ATen operator"
    assert re.fullmatch(r"<npugraph.Artifact .*: 4 tasks, 1 replays>", repr(artifact))
    assert "cond" in artifact.explain()


def test_explain() -> None:
    compiled, inputs, artifact = compiled_step()
    compiled(*inputs)
    text = artifact.explain()
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings[0].startswith("step_0: ")
    assert headings[1:] == [
        "Where time and bytes go",
        "What the passes did",
        "What is not generated code, and why",
        "Memory",
        "Compile time",
    ]
    assert "softmax" in text


def test_task_log() -> None:
    compiled, inputs, artifact = compiled_step()
    with npugraph.task_log() as log:
        compiled(*inputs)
        assert log == []
        compiled(*inputs)
    names = [task.name for task in artifact.tasks]
    assert [record.name for record in log] == names * 2
    assert [record.task for record in log] == [*range(len(names))] * 2
    assert [record.sequence for record in log] == sorted({record.sequence for record in log})
    for record in log:
        assert record.artifact == artifact.name
        assert record.instance == artifact.instances[0].key
        assert record.mode == "replay"
        assert record.kind in ("kernel", "aten", "copy")
        assert record.stream == 0
        assert 0 in record.workers
        assert 0 < record.begin_ns <= record.end_ns
        assert list(record.waits) == []
        assert list(record.limits) == [] or record.limits
        assert list(record.scopes) == [] or record.scopes
    for before, after in itertools.pairwise(log):
        assert before.end_ns <= after.begin_ns


def test_task_log_of_a_capture_and_after_an_error() -> None:
    compiled = compile_ex(lambda x, i: x[i] + 1)
    with npugraph.task_log() as log:
        compiled(torch.ones(3), torch.tensor([0]))
    assert {record.mode for record in log} == {"capture"}
    with npugraph.task_log() as log, pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    with npugraph.task_log() as log:
        compiled(torch.ones(3), torch.tensor([0]))
    assert {record.mode for record in log} == {"replay"}


def test_pools() -> None:
    _, _, artifact = compiled_step()
    arena = next(pool for pool in npugraph.pools() if pool.owners == [artifact.name] and "arena" in pool.name)
    assert arena.peak_bytes >= arena.live_bytes >= artifact.memory["arena_bytes"]
    assert arena.history
    for event in arena.history:
        assert event.ns > 0
        assert event.what
        assert event.bytes >= 0


def test_poison() -> None:
    npugraph.poison_freed_memory()
    try:
        compiled, inputs, _ = compiled_step()
        again = [t.clone() for t in inputs]
        for _ in range(2):
            torch.testing.assert_close(compiled(*inputs), step(*again))
    finally:
        npugraph.poison_freed_memory(False)


def test_trace(tmp_path) -> None:
    path = tmp_path / "trace.json"
    with npugraph.trace(path):
        compiled, inputs, artifact = compiled_step()
        compiled(*inputs)
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["name"] for event in events]
    for task in artifact.tasks:
        assert names.count(task.name) >= 2
    for phase in ("passes", "lower", "plan"):
        assert phase in names
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= 0


def test_save(tmp_path) -> None:
    compiled = compile_ex(lambda x: x * 2 + 1)
    compiled(torch.ones(3))
    path = tmp_path / "program.ngp"
    npugraph.artifacts()[0].save(path)
    assert path.stat().st_size > 0
    assert path.stat().st_mode & 0o777 == 0o600
