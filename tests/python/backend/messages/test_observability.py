# SPDX-License-Identifier: Apache-2.0
"""Observability: the facts that an artifact reports, the task log, the pools, the trace and the counters."""

from __future__ import annotations

import itertools
import json
import os
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


def test_tasks_report_their_source_bytes_and_time() -> None:
    compiled, inputs, artifact = compiled_step()
    compiled(*inputs)
    compiled(*inputs)
    tasks = artifact.tasks
    assert any("softmax" in task.name for task in tasks)
    for task in tasks:
        assert task.kind in ("kernel", "aten", "loop", "matmul")
        assert task.stream == 0
        assert task.origin
        assert re.fullmatch(rf"{re.escape(__file__)}:\d+ in step", task.source)
        assert bool(task.reason) == (task.kind in ("aten", "kernel"))
        assert task.bytes_read > 0
        assert task.bytes_written >= 16 * 32 * 4
        assert task.nanoseconds > 0
        assert task.begin_nanoseconds >= 0
        assert task.saved_bytes >= 0
    # Begins are those of one run, in which each task took at least the shortest of its times.
    ends = [task.begin_nanoseconds + task.least_nanoseconds for task in tasks]
    assert tasks[0].begin_nanoseconds == 0
    assert all(end <= task.begin_nanoseconds for end, task in zip(ends, tasks[1:], strict=False))
    torch._dynamo.reset()
    _, _, plain = compiled_step(options={"generate_code": False})
    softmax = next(task for task in plain.tasks if "softmax" in task.name)
    assert softmax.bytes_read == softmax.bytes_written == 16 * 32 * 4


def test_buffers_lie_where_nothing_else_lives() -> None:
    def fn(x, w):
        for _ in range(4):
            x = (x @ w).cumsum(0).sort(-1).values
        return x

    compiled = compile_ex(fn, dynamic=True)
    for size in (8, 32):
        x, w = torch.randn(size, 16), torch.randn(16, 16)
        compiled(x, w)
        artifact = npugraph.artifacts()[-1]
        end = len(artifact.tasks)
        assert {buffer.kind for buffer in artifact.buffers} <= {"arena", "heap", "output", "workspace"}
        assert max(buffer.last_task for buffer in artifact.buffers) == end  # the result lives to the end
        assert all(0 <= buffer.first_task <= buffer.last_task <= end for buffer in artifact.buffers)
        assert any(buffer.bytes == size * 16 * 4 for buffer in artifact.buffers)
        placed = [buffer for buffer in artifact.buffers if buffer.offset >= 0]
        assert {buffer.kind for buffer in placed} <= {"arena", "workspace"}
        assert max(buffer.offset + buffer.bytes for buffer in placed) <= artifact.memory["arena_bytes"]
        for a, b in itertools.combinations(placed, 2):
            live_together = a.first_task <= b.last_task and b.first_task <= a.last_task
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert apart or not live_together, (a, b)


def test_remarks_and_what_was_left_apart() -> None:
    def fn(x, cache):
        cache.copy_((x.cumsum(0) + cache).softmax(-1))
        return x

    compile_ex(fn)(torch.randn(4, 8), torch.zeros(4, 8))
    (artifact,) = npugraph.artifacts()
    (pair,) = artifact.left_apart
    assert (pair.consumer, pair.reason, pair.origin) == ("_softmax", "their loops differ", "_softmax")
    assert pair.bytes == 4 * 8 * 4
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ in fn", pair.source)
    assert [(r.pass_name, r.node, r.message) for r in artifact.remarks]
    assert all(r.message in artifact.explain() for r in artifact.remarks)


def test_bytes_of_changing_sizes_are_those_of_the_latest_call() -> None:
    def fn(x, y):
        return (x.sin() * y).cumsum(0).softmax(-1)

    def told(artifact):
        return [task.saved_bytes for task in artifact.tasks], [pair.bytes for pair in artifact.left_apart]

    dynamic = compile_ex(fn, dynamic=True)
    dynamic(torch.randn(8, 6), torch.randn(8, 6))
    (artifact,) = npugraph.artifacts()
    for rows, columns in ((24, 40), (70, 30)):
        inputs = torch.randn(rows, columns), torch.randn(rows, columns)
        dynamic(*inputs)
        fixed = torch.compile(lambda x, y: fn(x, y), backend="npugraph_ex", dynamic=False)
        fixed(*inputs)
        assert told(artifact) == told(npugraph.artifacts()[-1])
        assert told(artifact)[1] == [rows * columns * 4]


def test_stages_and_program_text() -> None:
    _, _, artifact = compiled_step()
    assert artifact.stages[0] == "import"
    *passes, lower, plan = artifact.stages
    for stage in passes:
        assert artifact.graph(stage).startswith("npugraph.graph 1 @step_0")
    assert artifact.graph() == artifact.graph(passes[-1])
    assert artifact.to_fx().code == artifact.to_fx(passes[-1]).code
    assert (lower, plan) == ("lower", "plan")
    assert artifact.graph(lower).startswith("npugraph.program 4 @step_0")
    assert artifact.graph(lower) != artifact.graph(plan) == artifact.program()
    for stage in (lower, plan):
        with pytest.raises(ValueError, match=f'after "{stage}" step_0 is a Program and no graph any more'):
            artifact.to_fx(stage)
    assert "aten.copy_" in artifact.graph("import")
    assert "aten.copy_(" not in artifact.graph()
    with pytest.raises(ValueError, match='unknown stage "nope"; the stages of step_0 are: import, '):
        artifact.graph("nope")
    program = artifact.program()
    assert program.startswith("npugraph.program 4 @step_0")
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
    assert found["kernel_builds"] + found["kernel_hits"] == sum(task.kind != "aten" for task in artifact.tasks)
    assert {"recaptures.new_symbols", "recaptures.evicted", "recaptures.forced"} <= set(found)
    for stage in artifact.stages[1:-2]:
        assert found[f"pass.{stage.split('.')[0]}"] >= 0
    of_process = dict(counters["npugraph_ex"])
    # The process also counts pieces of matrix products. They are built when sizes are known, unless code that another
    # test compiled is still alive and contains them.
    for name in ("kernel_builds", "kernel_build_ns"):
        assert of_process.pop(name, 0) >= found.pop(name)
    assert of_process.pop("captured_step_0") == 2
    assert of_process == {name: count for name, count in found.items() if count}


def test_counters_of_the_process() -> None:
    compiled, inputs, _ = compiled_step()
    assert dict(counters["npugraph_ex"])["replays"] == 1
    counters.clear()
    assert counters["npugraph_ex"] == {}
    compiled(*inputs)
    held = counters["npugraph_ex"]
    assert dict(held) == {"replays": 1, "cache_hits": 1}
    assert held["captures"] == 0
    compiled(*inputs)
    assert sorted(held.items()) == [("cache_hits", 2), ("replays", 2)]
    held.clear()
    compiled(*inputs)
    assert held["replays"] == 1
    other = compile_ex(lambda x: x - 1)
    other(torch.ones(3))
    assert held["compiles"] == 1
    assert held["replays"] == 2


def test_an_artifact_reports_its_memory() -> None:
    _, inputs, artifact = compiled_step()
    memory = artifact.memory
    assert set(memory) == {
        "arena_bytes",
        "lower_bound_bytes",
        "live_bytes",
        "heap_bytes",
        "scratch_bytes",
        "derived_constant_bytes",
        "released_weight_bytes",
        "copied_bytes_per_replay",
        "bound_bytes_per_call",
    }
    assert memory["arena_bytes"] >= memory["lower_bound_bytes"] >= memory["live_bytes"] >= 16 * 32 * 4
    assert memory["copied_bytes_per_replay"] == 0
    assert memory["heap_bytes"] >= 16 * 32 * 4
    assert memory["bound_bytes_per_call"] == sum(t.nbytes for t in inputs)


def test_derived_constants() -> None:
    compile_ex(lambda x: x + torch.arange(5) * 2)(torch.ones(5))
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["derived_constant_bytes"] == 5 * 8


def test_pass_hits() -> None:
    def fn(x, cache):
        y = torch.sin(x) + torch.sin(x)
        cache.add_(y)
        return y

    compiled = compile_ex(fn)
    compiled(torch.ones(3), torch.zeros(3))
    (artifact,) = npugraph.artifacts()
    found = artifact.counters
    assert found["pass.cse"] == 1
    assert found["pass.reinplace_inputs"] == 1
    assert found["pass.sink_cat"] == found["pass.fold_repeat_kv"] == 0


def test_recaptures_by_new_symbols() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = compile_ex(lambda x: x.nonzero() + 1)
        recaptures = []
        for values in ([1.0, 0, 1], [0.0, 1, 1], [1.0, 1, 1], [0.0, 0, 1], [0.0, 1, 0]):
            compiled(torch.tensor(values))
            (artifact,) = npugraph.artifacts()
            recaptures.append(artifact.counters["recaptures.new_symbols"])
    assert recaptures == [0, 0, 1, 2, 2]
    assert artifact.counters["captures"] == 3
    assert artifact.counters["compiles"] == 1


def test_phases_of_the_compiler_are_reported_in_order() -> None:
    _, _, artifact = compiled_step()
    names = [name for name, _ in artifact.phases]
    assert names == ["record", "fx", "import", "passes", "lower", "generate", "group", "plan", "build"]
    assert all(milliseconds >= 0 for _, milliseconds in artifact.phases)


def test_partitions_and_repr() -> None:
    compiled = compile_ex(lambda x: torch.cond((x.sum() > 0).float(), lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1)
    with pytest.warns(npugraph.NpugraphWarning, match="cond"):
        compiled(torch.ones(3))
    (artifact,) = npugraph.artifacts()
    (partition,) = artifact.partitions
    assert partition.node == "cond"
    assert (partition.target, partition.runs_as) == ("cond", "python")
    assert partition.source.startswith(__file__)
    assert partition.reason == "cond is not an ATen operator, and cannot be a task: its predicate is no boolean"
    assert re.fullmatch(r"<npugraph.Artifact .*: 3 tasks, 1 run>", repr(artifact))
    assert "cond" in artifact.explain()


def test_an_explanation_agrees_with_the_tasks() -> None:
    compiled, inputs, artifact = compiled_step(options={"generate_code": False})
    compiled(*inputs)
    text = artifact.explain()
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings[0].startswith("step_0: ")
    assert headings[1:] == [
        "Where time and bytes go",
        "The tasks that take most time",
        "Generated code",
        "What the passes did",
        "What is not generated code, and why",
        "Memory",
        "Compile time",
    ]
    sections = dict(zip(headings[1:], re.split("|".join(map(re.escape, headings[1:])), text)[1:], strict=True))
    kinds = {task.kind for task in artifact.tasks}
    for kind in kinds:
        count = sum(task.kind == kind for task in artifact.tasks)
        line = rf"^  {kind} +{count} tasks? +(\d+) % of the time +(\d+) % of the bytes \([\d.]+ K?i?B\)$"
        assert re.search(line, sections["Where time and bytes go"], re.MULTILINE)
    for column in range(2):
        shares = re.findall(r"(\d+) % of", sections["Where time and bytes go"])[column::2]
        assert sum(map(int, shares)) == pytest.approx(100, abs=len(kinds))
    hits = artifact.counters["pass.reinplace_inputs"]
    assert hits > 0
    assert re.search(rf"^ +{hits}x reinplace_inputs: updated in place$", sections["What the passes did"], re.MULTILINE)
    assert re.search(rf"^  reinplace_inputs +{hits}$", sections["What the passes did"], re.MULTILINE)
    reasons = sections["What is not generated code, and why"]
    for task in artifact.tasks:
        assert f"{task.name}: {task.reason}" in reasons
    assert "aten._softmax.out" in reasons
    slowest = max(artifact.tasks, key=lambda task: task.nanoseconds)
    first = sections["The tasks that take most time"].strip().splitlines()[0]
    assert re.fullmatch(rf" *{slowest.nanoseconds / 1e3:.1f} us +\d+ %  {slowest.name} at {slowest.source}", first)
    assert not re.search(r" 0$", sections["What the passes did"], re.MULTILINE)


def test_explain_says_why_small_products_are_not_generated_code() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
    with torch.no_grad():
        compile_ex(model)(torch.randn(4, 64))
    (artifact,) = npugraph.artifacts()
    small = "small enough for a precompiled kernel, which needs no code of its own"
    assert f"2x kernel.mm_f32: {small}\n" in artifact.explain()
    assert f"1x kernel.unary_relu: {small}\n" in artifact.explain()


def test_explain_without_times() -> None:
    """The times come from the second run with the same sizes. Later runs with other sizes do not remove them."""
    compiled = compile_ex(lambda x: x.sin() * 2, dynamic=True)
    for rows in (2, 3):
        compiled(torch.ones(rows))
    (artifact,) = npugraph.artifacts()
    text = artifact.explain()
    assert ": 1 task, " in text
    assert ", 1 output, " in text
    assert "; captured 2 times, run 2 times\n" in text
    assert re.search(r"^  \w+ +1 task +- of the time +100 % of the bytes", text, re.MULTILINE)
    assert "(no times yet: call again with the same sizes)" in text
    assert "What is not generated code" not in text
    assert "What the passes did" not in text
    for rows in (3, 4):
        compiled(torch.ones(rows))
    assert re.search(r"^  \w+ +1 task +100 % of the time", artifact.explain(), re.MULTILINE)


def test_explain_with_force_eager() -> None:
    compiled = compile_ex(lambda x: x.sin(), options={"force_eager": True})
    for _ in range(3):
        compiled(torch.ones(3))
    (artifact,) = npugraph.artifacts()
    assert "(no times: without captures nothing is run a second time)" in artifact.explain()


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
        assert record.kind == artifact.tasks[record.task].kind
        assert record.stream == 0
        assert 0 in record.workers
        assert 0 < record.begin_ns <= record.end_ns
        assert list(record.waits) == []
        assert list(record.limits) == []
        assert list(record.scopes) == []
    for before, after in itertools.pairwise(log):
        assert before.end_ns <= after.begin_ns


def test_task_log_of_a_capture_and_after_an_error() -> None:
    compiled = compile_ex(lambda x, i: x[i] + 1)
    with npugraph.task_log() as log:
        compiled(torch.ones(3), torch.tensor([0]))
    assert {record.mode for record in log} == {"capture"}
    with npugraph.task_log() as log, pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    (failed,) = log
    assert "index" in failed.name
    assert failed.end_ns >= failed.begin_ns > 0
    with npugraph.task_log() as log:
        compiled(torch.ones(3), torch.tensor([0]))
    assert {record.mode for record in log} == {"replay"}


def test_what_is_printed_of_records() -> None:
    compiled, inputs, artifact = compiled_step()
    with npugraph.task_log() as log:
        compiled(*inputs)
    task, record = artifact.tasks[0], log[0]
    assert repr(task) == f"<npugraph.TaskInfo {task.name}: {task.kind} at {task.source}, {task.nanoseconds} ns>"
    spent = record.end_ns - record.begin_ns
    assert repr(record) == (
        f"<npugraph.TaskRecord {record.sequence} of {artifact.name}: {task.name}, {task.kind}, replay, {spent} ns>"
    )
    pool = npugraph.pools()[0]
    assert repr(pool) == (f"<npugraph.PoolInfo {pool.name}: {pool.live_bytes} bytes live, {pool.peak_bytes} at most>")
    event = pool.history[0]
    assert repr(event) == f"<npugraph.PoolEvent {event.what} {event.bytes} bytes at {event.ns} ns>"


def test_the_package_lists_its_public_names() -> None:
    assert sorted(dir(npugraph)) == sorted([*npugraph.__all__, "__version__"])
    assert all(hasattr(npugraph, name) for name in npugraph.__all__)


def test_a_pool_reports_the_history_of_its_arena() -> None:
    _, _, artifact = compiled_step()
    arena = next(pool for pool in npugraph.pools() if pool.owners == [artifact.name] and "arena" in pool.name)
    assert arena.peak_bytes >= arena.live_bytes >= artifact.memory["arena_bytes"]
    assert arena.history
    for event in arena.history:
        assert event.ns > 0
        assert event.what
        assert event.bytes >= 0


def test_poisoned_memory_changes_no_result() -> None:
    npugraph.poison_freed_memory()
    try:
        compiled, inputs, _ = compiled_step()
        again = [t.clone() for t in inputs]
        for _ in range(2):
            torch.testing.assert_close(compiled(*inputs), step(*again))
    finally:
        npugraph.poison_freed_memory(False)


def test_a_trace_has_all_tasks_phases_and_passes(tmp_path) -> None:
    path = tmp_path / "trace.json"
    with npugraph.trace(path):
        compiled, inputs, artifact = compiled_step()
        compiled(*inputs)
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["name"] for event in events]
    for task in artifact.tasks:
        assert names.count(task.name) >= 2
    assert [name for name in names if name in dict(artifact.phases)] == [name for name, _ in artifact.phases]
    passes = [stage.split(".")[0] for stage in artifact.stages[1:-2]]
    assert [name for name in names if name in passes] == passes
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    for event in spans.values():
        assert event["dur"] >= 0
        assert event["ts"] >= 0
    for name, milliseconds in artifact.phases:
        assert spans[name]["dur"] >= milliseconds * 1e3 - 0.01
    for before, after in itertools.pairwise(name for name, _ in artifact.phases):
        assert spans[before]["ts"] + spans[before]["dur"] <= spans[after]["ts"] + 0.01


def test_traces_in_a_row(tmp_path) -> None:
    compiled, inputs, artifact = compiled_step()
    for calls in (3, 1):
        path = tmp_path / f"{calls}.json"
        with npugraph.trace(path):
            for _ in range(calls):
                compiled(*inputs)
        spans = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
        assert [event["name"] for event in spans] == [task.name for task in artifact.tasks] * calls
    with pytest.raises(ValueError, match="cannot write the trace"), npugraph.trace(tmp_path / "no" / "trace.json"):
        pytest.fail("nothing runs when the trace could not be written")
    with npugraph.trace(tmp_path / "empty.json"):
        pass
    events = json.loads((tmp_path / "empty.json").read_text())["traceEvents"]
    assert [event for event in events if event["ph"] == "X"] == []


def test_saved_files_have_the_usual_permissions(tmp_path) -> None:
    compiled = compile_ex(lambda x: x * 2 + 1)
    compiled(torch.ones(3))
    path = tmp_path / "program.ngp"
    npugraph.artifacts()[0].save(path)
    assert path.stat().st_size > 0
    os.umask(umask := os.umask(0))
    assert path.stat().st_mode & 0o777 == 0o644 & ~umask


def test_tasks_of_torchs_own_modules_name_the_module() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Sequential(torch.nn.Softmax(-1))).eval()
    with torch.no_grad():
        compile_ex(model)(torch.randn(300, 64))
    assert [task.source for task in npugraph.artifacts()[-1].tasks] == ["module 0, Linear", "module 1.0, Softmax"]
