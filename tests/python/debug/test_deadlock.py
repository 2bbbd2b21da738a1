# SPDX-License-Identifier: Apache-2.0
"""The deadlock check, on traces of graphs that may deadlock and of graphs that cannot."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess

import pytest
import torch
import torch.distributed
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed import _functional_collectives as functional
from torch.testing._internal.distributed.fake_pg import FakeStore

import npugraph
import npugraph_ex
from npugraph.deadlock import command
from npugraph.deadlock.align import aligned
from npugraph.deadlock.check import check
from npugraph.deadlock.conflicts import conflicts, heaviest_unordered
from npugraph.deadlock.operators import filtered, vector_cores
from npugraph.deadlock.trace_file import TraceError
from tests.python.backend.checks import compile_ex
from tests.python.forks import run_python


def kernel(name: str, stream: int, aiv: int | None = None, **more) -> dict:
    return {"name": name, "ph": "X", "tid": stream, "dur": 5.0, "args": ({} if aiv is None else {"aiv": aiv}) | more}


def record(stream: int, event: int) -> dict:
    return kernel("EVENT_RECORD", stream, event_id=event)


def wait(stream: int, event: int) -> dict:
    return kernel("EVENT_WAIT", stream, event_id=event)


def trace(*events: dict) -> list[dict]:
    """Returns the events with times that are ten microseconds apart."""
    return [event | {"ts": 10.0 * i} for i, event in enumerate(events)]


def found(events: list[dict], total: int = 48) -> list[list[str]]:
    return [[event["name"] for event in items] for _, items in check(events, total).conflicts]


PAIR = kernel("aiv_all_reduce", 0, 30), kernel("hccl_aiv_gather", 1, 20)


@pytest.mark.feature("9.09", "4.15")
def test_two_that_nothing_orders_and_that_ask_for_too_much() -> None:
    verdict = check(trace(*PAIR), 48)
    assert verdict.lines() == [
        "[CONFLICT] aiv_all_reduce (stream 0) | hccl_aiv_gather (stream 1): 50 of 48 vector cores",
        "[RESULT] Deadlock risk detected! 1 conflicting pair(s)",
    ]
    for events, total in (
        (PAIR, 50),
        ((PAIR[0], record(0, 1), wait(1, 1), PAIR[1]), 48),
        ((PAIR[1], record(1, 1), wait(0, 1), PAIR[0]), 48),
        ((PAIR[0], record(0, 1), wait(2, 1), record(2, 2), wait(1, 2), PAIR[1]), 48),
        ((PAIR[0], kernel("MEMORY_WRITE_RECORD", 0, event_id=1), kernel("memory wait", 1, event_id=1), PAIR[1]), 48),
        ((PAIR[0], PAIR[1] | {"tid": 0}), 48),
        ((kernel("add", 0, 48), kernel("mul", 1, 48)), 48),
    ):
        assert check(trace(*events), total).lines() == ["[RESULT] No deadlock risks detected."], events
    assert found(trace(record(0, 1), PAIR[0], wait(1, 1), PAIR[1])) == [["aiv_all_reduce", "hccl_aiv_gather"]]
    assert found(trace(wait(1, 1), PAIR[1], PAIR[0], record(0, 1))) == []  # times say nothing about order


@pytest.mark.feature("9.09")
def test_any_number_that_fit_only_without_each_other() -> None:
    three = [kernel(f"aiv_{i}", i, 17) for i in range(3)]
    verdict = check(trace(*three), 48)
    assert verdict.lines() == [
        "[CONFLICT] aiv_0 (stream 0) | aiv_1 (stream 1) | aiv_2 (stream 2): 51 of 48 vector cores",
        "[RESULT] Deadlock risk detected! 0 conflicting pair(s), 1 conflicting set(s) of other sizes",
    ]
    assert found(trace(*three), 51) == []
    assert found(trace(three[0], record(0, 1), wait(1, 1), three[1], three[2])) == []
    mixed = [*three, kernel("moe_Dispatch", 3, 40), kernel("aiv_small", 4, 1)]
    # Conflicting sets are minimal: if any one task is left out, the others fit.
    assert found(trace(*mixed)) == [[f"aiv_{i}", "moe_Dispatch"] for i in range(3)] + [["aiv_0", "aiv_1", "aiv_2"]]
    assert found(trace(kernel("aiv_huge", 0, 60))) == [["aiv_huge"]]
    crowd = [kernel(f"combine_{i}", i, 1) for i in range(60)]
    verdict = check(trace(*crowd), 48)
    assert [len(items) for _, items in verdict.conflicts] == [49]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_all_smallest_sets_are_found(data) -> None:
    """Compares with a search through all subsets, for random partial orders of weighted tasks."""
    n = data.draw(st.integers(1, 7))
    weights = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    before = [[False] * n for _ in range(n)]
    for i, j in itertools.combinations(range(n), 2):
        before[i][j] = data.draw(st.booleans())
    for k, i, j in itertools.product(range(n), repeat=3):
        before[i][j] |= before[i][k] and before[k][j]
    total = data.draw(st.integers(1, 20))

    def ordered(i: int, j: int) -> bool:
        return before[i][j] or before[j][i]

    sets = [
        items
        for size in range(1, n + 1)
        for items in itertools.combinations(range(n), size)
        if not any(ordered(i, j) for i, j in itertools.combinations(items, 2))
    ]
    weight = {items: sum(weights[i] for i in items) for items in sets}
    heaviest = heaviest_unordered(weights, lambda i, j: before[i][j])
    assert sum(weights[i] for i in heaviest) == max(weight.values())
    assert not any(ordered(i, j) for i, j in itertools.combinations(heaviest, 2))
    want = {
        items for items in sets if weight[items] > total and weight[items] - min(weights[i] for i in items) <= total
    }
    assert set(conflicts(weights, lambda i, j: before[i][j], total)) == want


@pytest.mark.feature("9.09")
@pytest.mark.parametrize(
    ("arguments", "cores"),
    [
        ({"block_num": 20}, 20),
        ({"block_num": 20, "task_type": "AICORE"}, 0),
        ({"block_num": 20, "task_type": "MIX_AIC"}, 40),
        ({"block_num": 20, "task_type": "MIX_AIC", "mix_ratio": "1:1"}, 20),
        ({"block_num": 20, "task_type": "MIX_AIC", "mix_ratio": "1:0"}, 0),
        ({"block_num": 20, "task_type": "MIX_AIV", "mix_ratio": "1:2"}, 20),
        ({"limits": {"vector_core_num": 7, "cube_core_num": 3}}, 7),
        ({"limits": {}}, 48),
    ],
)
def test_cores_of_a_kernel(arguments, cores) -> None:
    assert vector_cores(kernel("aiv_x", 0, **arguments), 48) == cores


@pytest.mark.feature("9.09")
def test_tasks_that_wait_for_each_other_and_for_nobody() -> None:
    events = trace(wait(0, 1), record(0, 2), wait(1, 2), record(1, 1), kernel("aiv_behind", 1, 48), *PAIR, wait(2, 9))
    verdict = check(events, 48)
    assert verdict.lines() == [
        "[CONFLICT] wait for each other: EVENT_WAIT (stream 0) | EVENT_RECORD (stream 0) | EVENT_WAIT (stream 1) | "
        "EVENT_RECORD (stream 1)",
        "[WARNING] EVENT_WAIT (stream 2) waits for an event that nothing here records",
        "[RESULT] Deadlock risk detected! 0 conflicting pair(s), and a circle of waits",
    ]


@pytest.mark.feature("9.09")
def test_the_filter_keeps_what_the_check_needs() -> None:
    events = trace(
        kernel("add", 0), PAIR[0], kernel("mul", 0, task=3), record(0, 1), wait(1, 1), kernel("x", 1, waits=[3])
    )
    assert [event["name"] for event in filtered(events)] == ["aiv_all_reduce", "mul", "EVENT_RECORD", "EVENT_WAIT", "x"]
    assert filtered(filtered(events)) == filtered(events)


@pytest.mark.feature("9.09")
def test_aligned_kernels_start_after_what_they_wait_for() -> None:
    late = [
        kernel("aiv_first", 0, 1) | {"ts": 0.0, "dur": 20.0},
        record(0, 1) | {"ts": 20.0, "dur": 0.0},
        wait(1, 1) | {"ts": 1.0, "dur": 0.0},
        kernel("add", 1) | {"ts": 2.0, "dur": 3.0},
        kernel("mul", 1) | {"ts": 26.0, "dur": 3.0},
    ]
    times = {event["name"]: event["ts"] for event in aligned(late)}
    assert times == {"aiv_first": 0.0, "EVENT_RECORD": 20.0, "EVENT_WAIT": 20.0, "add": 20.0, "mul": 26.0}
    merged = aligned(late, merge_gap=3.0)[-1]
    assert (merged["name"], merged["ts"], merged["dur"], merged["count"]) == ("add + mul", 20.0, 9.0, 2)
    assert {"add", "mul"} < {event["name"] for event in aligned(late, merge_gap=2.0)}


@pytest.mark.feature("9.09")
def test_command_lines(tmp_path, capsys) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"traceEvents": trace(*PAIR, kernel("add", 0))}))
    assert command.filter_operators([str(path)]) == 0
    kept = json.loads((tmp_path / "graph_filtered.json").read_text())["traceEvents"]
    assert [event["name"] for event in kept] == ["aiv_all_reduce", "hccl_aiv_gather"]
    assert command.deadlock_check([str(tmp_path / "graph_filtered.json")]) == 1
    assert capsys.readouterr().out.endswith("[RESULT] Deadlock risk detected! 1 conflicting pair(s)\n")
    report = json.loads((tmp_path / "graph_filtered_deadlock_check.json").read_text())
    assert (report["vector_cores"], report["is_risk"], report["conflicts"][0]["vector_cores"]) == (48, True, 50)
    assert command.deadlock_check([str(path), "--aivec-total", "64", "-o", str(tmp_path / "out.json")]) == 0
    assert capsys.readouterr().out == "[RESULT] No deadlock risks detected.\n"
    assert json.loads((tmp_path / "out.json").read_text())["is_risk"] is False
    assert command.align_trace([str(path), "--merge-gap", "5"]) == 0
    assert (tmp_path / "graph_aligned.json").exists()
    with pytest.raises(SystemExit):
        command.deadlock_check([str(path), "--aivec-total", "0"])
    assert "--aivec-total is at least 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot read {path}: No such file or directory"),
        ("{", "{path} is no JSON: "),
        ('{"a": 1}', "{path} is no Chrome trace: there is no list of objects in it, nor under traceEvents"),
        ('[{"name": "x"}]', "{path}: an event lacks tid: "),
        ('[{"name": "aiv_x", "tid": 0}]', "aiv_x of stream 0 does not say how many vector cores it takes: "),
        ('[{"name": "EVENT_WAIT", "tid": 0}]', "EVENT_WAIT of stream 0 does not say which event: "),
    ],
)
def test_files_that_cannot_be_judged(content, complaint, tmp_path, capsys) -> None:
    path = tmp_path / "graph.json"
    if content is not None:
        path.write_text(content)
    assert command.deadlock_check([str(path)]) == 2
    assert capsys.readouterr().err.startswith("deadlock_check: " + complaint.format(path=path))


@pytest.mark.feature("9.09")
@pytest.mark.parametrize("tools", ["npugraph_ex.tools.aclgraph_check", "torchair.tools.gegraph_check"])
def test_modules_are_commands(tools, tmp_path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(trace(*PAIR)))
    done = run_python("-m", f"{tools}.deadlock_check", path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1,
        "[RESULT] Deadlock risk detected! 1 conflicting pair(s)",
    )


def exchange(x, y):
    return torch.ops.npugraph_deadlock.dispatch(x.sin()), torch.ops.npugraph_deadlock.combine(y.cos())


@pytest.fixture
def operators():
    with torch.library._scoped_library("npugraph_deadlock", "FRAGMENT") as library:
        for name in ("dispatch", "combine"):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x + 1, "CompositeExplicitAutograd")
            library._register_fake(name, lambda x: torch.empty_like(x))
        yield


@pytest.mark.feature("1.20", "9.09")
def test_the_option_checks_each_capture(operators, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.randn(4)
    with torch.no_grad():
        run = compile_ex(exchange, options={"deadlock_check": True, "name": "a/b"}, dynamic=False)
        for _ in range(3):
            torch.testing.assert_close(run(x, x), exchange(x, x))
    assert capsys.readouterr().out == "a/b: [RESULT] No deadlock risks detected.\n"
    names = ["a_b_0.json", "a_b_0_filtered.json", "a_b_0_filtered_deadlock_check.json", f"running_{os.getpid()}.txt"]
    assert sorted(path.name for path in (tmp_path / "npugraph_deadlock_check").iterdir()) == names
    kept = json.loads((tmp_path / "npugraph_deadlock_check" / names[1]).read_text())["traceEvents"]
    assert ["dispatch" in event["name"] for event in kept] == [True, False]
    assert all("test_deadlock.py" in event["args"]["source"] for event in kept)


@pytest.mark.feature("1.20", "9.09")
def test_another_process_sees_what_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = []

    @torch.library.custom_op("npugraph_deadlock_look::look", mutates_args=())
    def look(x: torch.Tensor) -> torch.Tensor:
        path = f"npugraph_deadlock_check/running_{os.getpid()}.txt"
        seen.append(subprocess.run(["cat", path], capture_output=True, text=True, check=True).stdout.split("\n"))
        return x.clone()

    look.register_fake(lambda x: torch.empty_like(x))
    with torch.no_grad():
        compile_ex(lambda x: look(x.sin()) + 1, options={"deadlock_check": True})(torch.ones(3))
    (line,) = filter(None, map(str.strip, seen[0]))
    task = r"task \d+, \S*look\S* \(\w+\), stream 0 of \S+_0, at \S*test_deadlock.py:\d+ in"
    assert re.match(rf"since [-\d]+ [:\d]+ thread \d+: {task}", line)
    (path,) = tmp_path.glob("npugraph_deadlock_check/running_*.txt")
    assert not path.read_text().strip()
    npugraph._C.record_running_tasks("")


@pytest.fixture
def groups():
    """Yields two process groups of a process that communicates with nobody."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield torch.distributed.group.WORLD, torch.distributed.new_group([0, 1])
    torch.distributed.destroy_process_group()


def two_streams(first, second, cores: int | None, ordered: bool):
    """Returns a function that computes `first` on a stream of its own, and `second`. If `ordered`, `second` waits for
    `first`."""
    marks = torch.ops.npugraph_ex

    def function(x, y):
        with npugraph_ex.scope.limit_core_num(cores, cores) if cores else contextlib.nullcontext():
            marks.scope_enter(["_user_stream_label"], ["side"])
            a = first(x.sin())
            marks.tagged_event_record("done")
            marks.scope_exit()
            if ordered:
                marks.tagged_event_wait("done")
            b = second(y.cos())
        if not ordered:
            marks.tagged_event_wait("done")
        return a + b

    return function


def judged(function, capsys) -> str:
    """Returns the output of two calls of the compiled function. Its files are in the current directory."""
    torch._dynamo.reset()
    x, y = torch.randn(4), torch.randn(4)
    with torch.no_grad():
        run = compile_ex(function, options={"deadlock_check": True, "name": "two"}, dynamic=False)
        for _ in range(2):
            torch.testing.assert_close(run(x, y), function(x, y))
    assert {task.stream for task in npugraph.artifacts()[-1].tasks} == {0, 1}
    return capsys.readouterr().out


SAFE = "two: [RESULT] No deadlock risks detected.\n"


@pytest.mark.feature("1.20", "9.09", "4.15")
def test_captures_of_several_streams(operators, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names = torch.ops.npugraph_deadlock.dispatch, torch.ops.npugraph_deadlock.combine
    assert judged(two_streams(*names, cores=None, ordered=True), capsys) == SAFE
    assert judged(two_streams(*names, cores=24, ordered=False), capsys) == SAFE
    told = judged(two_streams(*names, cores=None, ordered=False), capsys).splitlines()
    assert told[0].startswith("two: [CONFLICT] ") and told[0].endswith(": 96 of 48 vector cores")
    for name, stream in (("dispatch", 1), ("combine", 0)):
        assert re.search(rf"npugraph_deadlock.{name} \(stream {stream}, \S+test_deadlock.py:\d+ in function\)", told[0])
    assert told[1:] == ["two: [RESULT] Deadlock risk detected! 1 conflicting pair(s)"]
    folder = tmp_path / "npugraph_deadlock_check"
    found = json.loads((folder / "two_0_filtered_deadlock_check.json").read_text())
    assert (found["is_risk"], found["conflicts"][0]["vector_cores"]) == (True, 96)
    assert command.deadlock_check([str(folder / "two_0.json")]) == 1
    kept = json.loads((folder / "two_0_filtered.json").read_text())["traceEvents"]
    shown = [(event["name"].rsplit(".")[-1], event["tid"]) for event in kept]
    assert {("EVENT_RECORD", 1), ("EVENT_WAIT", 0)} < set(shown) and len(shown) == 4


@pytest.mark.feature("1.20", "9.09")
def test_collectives_of_several_streams(groups, tmp_path, monkeypatch, capsys) -> None:
    """Collectives of one group always run one after the other, because its communicator has a stream."""
    monkeypatch.chdir(tmp_path)
    one, other = (lambda x, group=group: functional.all_reduce(x, "sum", group) for group in groups)
    assert judged(two_streams(one, other, cores=25, ordered=True), capsys) == SAFE
    assert judged(two_streams(one, one, cores=25, ordered=False), capsys) == SAFE
    assert judged(two_streams(one, other, cores=24, ordered=False), capsys) == SAFE
    told = judged(two_streams(one, other, cores=25, ordered=False), capsys)
    assert re.match(
        r"two: \[CONFLICT\] npugraph.all_reduce \(stream \d, .+\) \| npugraph.all_reduce \(stream \d, ", told
    )
    assert told.endswith(": 50 of 48 vector cores\ntwo: [RESULT] Deadlock risk detected! 1 conflicting pair(s)\n")


def test_traces_that_lack_numbers_are_refused() -> None:
    with pytest.raises(TraceError, match="its args have none of limits, aiv and block_num"):
        check(trace(kernel("aiv_x", 0)), 48)
