# SPDX-License-Identifier: Apache-2.0
"""Streams of ``torch.npu`` in compiled graphs become strands of a replay, and events become edges between tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import npu
from torch._functorch.aot_autograd import aot_module_simplified

import npugraph
import npugraph_ex
from tests.python.backend.barriers import barrier_of, meet, needs_two_processors

WIDTH = 128
OUTER = npu.Stream()
EVENT = npu.Event(enable_timing=True)


@pytest.fixture(autouse=True)
def two_workers() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    npu.set_stream(npu.default_stream())


def inputs(width: int = WIDTH) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(width, width, generator=generator) / width**0.5).npu() for _ in range(3)]


def chains(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = z = x
    with npu.stream(OUTER):
        for _ in range(6):
            y = (y @ a).tanh()
    for _ in range(6):
        z = (z @ b).tanh()
    npu.current_stream().wait_stream(OUTER)
    return y + z


def meeting(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with npu.stream(OUTER):
        y = meet(x @ a)
    z = meet(x @ b)
    npu.current_stream().wait_stream(OUTER)
    return y + z


def with_events(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    side, done = npu.Stream(), npu.Event()
    with npu.stream(side):
        y = (x @ a).tanh() @ a
        done.record()
    z = (x @ b).tanh() @ b
    npu.current_stream().wait_event(done)
    return y + z


def with_wait_stream(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    OUTER.wait_stream(npu.current_stream())
    with npu.stream(OUTER):
        y = x @ a
        y.record_stream(OUTER)
    z = x @ b
    npu.current_stream().wait_stream(OUTER)
    return y + z


def with_set_stream(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    before = npu.current_stream()
    npu.set_stream(OUTER)
    y = x @ a
    event = OUTER.record_event()
    npu.set_stream(before)
    z = x @ b
    event.wait(before)
    return y + z


def with_events_of_no_stream(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The event names no stream. It is recorded, and waited for, on the stream that set_stream chose."""
    before, done = npu.current_stream(), npu.Event()
    npu.set_stream(OUTER)
    y = x @ a
    done.record()
    npu.set_stream(before)
    z = x @ b
    done.wait()
    return y + z


def with_set_stream_in_a_block(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    first, second = npu.Stream(), npu.Stream()
    with first:
        y = x @ a
        second.wait_stream(npu.current_stream())
        torch.accelerator.set_stream(second)
        z = y @ b
        done = npu.current_stream().record_event()
    w = x @ b
    done.wait()
    return z + w


def nested(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    first, second = npu.Stream(), npu.Stream()
    main = npu.current_stream()
    with npu.stream(first):
        y = x @ a
        second.wait_stream(first)
        with npu.stream(second):
            z = y @ b
        w = y @ a
    main.wait_stream(first)
    main.wait_stream(second)
    return z + w


def with_synchronize(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with npu.stream(OUTER):
        y = x @ a
    z = x @ b
    OUTER.synchronize()
    return y + z


PROGRAMS = {  # streams of the tasks, and what they wait for
    with_events: ([1, 1, 0, 0, 0], {4: [1]}),
    with_wait_stream: ([1, 0, 0], {2: [0]}),
    with_set_stream: ([1, 0, 0], {2: [0]}),
    with_events_of_no_stream: ([1, 0, 0], {2: [0]}),
    with_set_stream_in_a_block: ([1, 2, 0, 0], {1: [0], 3: [1]}),
    nested: ([1, 2, 1, 0], {1: [0], 3: [1, 2]}),
    with_synchronize: ([1, 0, 0], {2: [0]}),
}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    with torch.no_grad():
        run(*inputs())
    return run


def log_of(run: Callable[..., Any], *args: torch.Tensor) -> list[Any]:
    with torch.no_grad(), npugraph.task_log() as log:
        run(*(args or inputs()))
    return sorted(log, key=lambda record: record.task)


@pytest.mark.feature("2.01", "2.15", "2.16", "4.01", "12e.10")
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_streams_are_lanes_and_events_are_edges(function: Callable[..., Any]) -> None:
    streams, waits = PROGRAMS[function]
    run = compiled(function)
    args = inputs()
    for _ in range(20):
        with torch.no_grad():
            torch.testing.assert_close(run(*args), function(*args))
    log = log_of(run)
    assert [record.stream for record in log] == streams
    assert {record.task: list(record.waits) for record in log if record.waits} == waits
    for record in log:
        assert all(record.begin_ns >= log[other].end_ns for other in record.waits)
    assert not npugraph.artifacts()[-1].partitions
    assert npu.current_stream() == npu.default_stream()


@pytest.mark.feature("1.23", "2.01")
def test_streams_and_limits_of_a_backend_of_ones_own_are_lanes_too() -> None:
    """Ascend's compile_fx supports neither. In such a backend AOTAutograd wraps waits and records into control_deps."""

    def backend(gm: Any, inputs: Any) -> Any:
        return aot_module_simplified(
            gm, inputs, fw_compiler=npugraph_ex.compile_fx, keep_inference_input_mutations=True
        )

    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with npu.npugraph_ex.scope.limit_core_num(1, 1):
            y = with_events(x, a, b)
        OUTER.wait_stream(npu.current_stream())
        with npu.stream(OUTER):
            z = y @ a
        npu.current_stream().wait_stream(OUTER)
        OUTER.synchronize()
        return z

    torch._dynamo.reset()
    run = torch.compile(function, backend=backend, fullgraph=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        torch.testing.assert_close(run(*inputs()), function(*inputs()))
    assert not npugraph.artifacts()[-1].partitions
    log = log_of(run)
    assert [record.stream for record in log] == [1, 1, 0, 0, 0, 2]
    assert {record.task: list(record.waits) for record in log if record.waits} == {4: [1], 5: [4]}
    assert [dict(record.limits).get("cube_core_num") for record in log] == [1, 1, 1, 1, 1, None]


@pytest.mark.feature("2.01", "4.02")
def test_the_graph_shows_scopes_and_events() -> None:
    seen = []

    def look(gm: Any, inputs: Any, config: Any) -> None:
        names = [str(node.target) for node in gm.graph.nodes if "npugraph_ex" in str(node.target)]
        seen.extend(name.split(".")[1] for name in names)

    torch._dynamo.reset()
    run = torch.compile(with_events, backend="npugraph_ex", options={"post_grad_custom_pre_pass": look})
    with torch.no_grad():
        run(*inputs())
    events = ["tagged_event_record_on_stream", "scope_exit", "tagged_event_wait_on_stream"]
    assert seen == ["scope_enter", *events]


@needs_two_processors
@pytest.mark.no_red_zones
@pytest.mark.feature("4.01")
def test_two_streams_run_at_once() -> None:
    run = compiled(chains)
    for _ in range(300):
        log = log_of(run)
        side, main = ([record for record in log if record.stream == stream] for stream in (1, 0))
        assert not {w for r in main for w in r.workers} & {w for r in side for w in r.workers}
    run = compiled(meeting)
    with barrier_of(2):
        assert {record.stream for record in log_of(run)} == {0, 1}


@pytest.mark.feature("2.01", "11.10")
def test_a_stream_that_is_not_restored() -> None:
    def left_open(x: torch.Tensor) -> torch.Tensor:
        npu.set_stream(OUTER)
        return x + 1

    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match=r"because set_stream was not undone: use `with torch.npu.stream"):
        torch.compile(left_open, backend="npugraph_ex", fullgraph=True)(torch.ones(3, device="npu"))


@pytest.mark.feature("4.01")
def test_a_graph_break_inside_of_a_stream_keeps_the_stream() -> None:
    """Dynamo does not compile such a function, and it runs as it is."""
    between = []

    def function(x: torch.Tensor) -> torch.Tensor:
        with npu.stream(OUTER):
            y = x @ x
            print(end="")
            between.append(npu.current_stream())
            y = y + 1
        npu.current_stream().wait_stream(OUTER)
        return y

    torch._dynamo.reset()
    x = torch.full((3, 3), 2.0, device="npu")
    with torch.no_grad():
        y = torch.compile(function, backend="npugraph_ex")(x)
    assert torch.equal(y, x @ x + 1)
    assert between == [OUTER] and npu.current_stream() == npu.default_stream()


@pytest.mark.feature("4.01", "4.15", "11.09")
def test_a_graph_break_behind_set_stream_is_an_error_that_names_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        before = npu.current_stream()
        npu.set_stream(OUTER)
        y = x @ x
        print(end="")
        npu.set_stream(before)
        return y

    line, at = function.__code__.co_firstlineno, r"at .*test_streams_in_graphs.py"
    message = (
        rf"the graph ends on another stream \(stream_\d\) than that on which it began, because of a graph break "
        rf"{at}:{line + 4} in function: Failed to trace builtin operator: .* `print` .*\. Move that out of the scope"
    )
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        torch.compile(function, backend="npugraph_ex")(torch.ones(3, 3, device="npu"))


@pytest.mark.feature("2.16")
def test_events_of_the_graph_and_of_the_program() -> None:
    """An event of the graph becomes an edge only. An event of the program is also recorded, for the program to see."""

    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with npu.stream(OUTER):
            y = x @ a
            EVENT.record()
        EVENT.wait()
        return y @ b

    run = compiled(function)
    args, times = inputs(), []
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(run(*args), function(*args))
        with torch.no_grad():
            run(*args)
        times.append(EVENT.recorded_time())
    assert times == sorted(set(times))
    assert {record.stream for record in log_of(run)} == {0, 1}
    assert not npugraph.artifacts()[-1].partitions
    log = log_of(compiled(with_events))
    assert log and all("record" not in record.name for record in log)


def with_given_events(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, begin: npu.Event, side: npu.Event, end: npu.Event
) -> torch.Tensor:
    y = z = x
    begin.record()
    with npu.stream(OUTER):
        y = (y @ a).tanh()
        side.record()
        y = y @ a
    z = z @ b
    side.wait()
    end.record()
    npu.current_stream().wait_stream(OUTER)
    return y + z


@pytest.mark.feature("2.16", "4.01")
def test_events_that_are_given_mark_their_points() -> None:
    torch._dynamo.reset()
    run = torch.compile(with_given_events, backend="npugraph_ex", fullgraph=True)
    args = inputs()
    for _ in range(5):
        events = [npu.Event(enable_timing=True) for _ in range(3)]
        with torch.no_grad(), npugraph.task_log() as log:
            result = run(*args, *events)
        torch.testing.assert_close(result, with_given_events(*args, *[npu.Event() for _ in range(3)]))
        begin, side, end = (event.recorded_time() for event in events)
        assert begin < end and side < end
        assert events[0].elapsed_time(events[2]) == pytest.approx((end - begin) / 1e6)
        lanes = [sorted((r for r in log if r.stream == stream), key=lambda r: r.task) for stream in (0, 1)]
        points = [[record for record in lane if "record" in record.name] for lane in lanes]
        for time, point in zip((begin, end, side), (*points[0], *points[1]), strict=True):
            assert point.begin_ns <= time <= point.end_ns
        assert lanes[0][0] is points[0][0] and lanes[1][-1] is not points[1][0]
        assert list(points[0][1].waits) == [points[1][0].task]  # end.record() comes after side.wait()
    (artifact,) = npugraph.artifacts()
    assert len(artifact.instances) == 1 and not artifact.partitions
    assert {task.kind for task in artifact.tasks if "record" in task.name} == {"aten"}
    with pytest.raises(ValueError, match=r"'npugraph_ex\.record_program_event' records an event of this process"):
        artifact.save("events.npug")


@pytest.mark.feature("2.16")
def test_events_that_are_returned_keep_time() -> None:
    def function(x: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, npu.Event, npu.Event]:
        begin, end = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
        begin.record()
        x = x @ a
        end.record()
        return x, begin, end

    torch._dynamo.reset()
    run = torch.compile(function, backend="npugraph_ex")
    x, a, _ = inputs()
    with torch.no_grad():
        results = [run(x, a) for _ in range(3)]
    assert all(begin.elapsed_time(end) > 0 for _, begin, end in results)
    assert results[0][2].elapsed_time(results[1][1]) > 0 and results[1][2].elapsed_time(results[2][1]) > 0
    for product, _, _ in results:
        torch.testing.assert_close(product, x @ a)


@pytest.mark.feature("2.16")
def test_events_outside_of_what_is_recorded() -> None:
    """A result lies in an input, so the graph goes through AOTAutograd."""

    def function(x: torch.Tensor, a: torch.Tensor, event: npu.Event) -> tuple[torch.Tensor, torch.Tensor]:
        event.wait()
        with npu.stream(OUTER):
            y = x @ a
            event.record()
        event.wait()
        return y + 1, x.t()

    torch._dynamo.reset()
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    x, a, _ = inputs()
    event = npu.Event(enable_timing=True)
    times = []
    for _ in range(3):
        event.record()
        times.append(event.recorded_time())
        with torch.no_grad():
            torch.testing.assert_close(run(x, a, event), (x @ a + 1, x.t()))
        times.append(event.recorded_time())
    assert times == sorted(set(times))
    (artifact,) = npugraph.artifacts()
    assert not artifact.partitions and {task.stream for task in artifact.tasks} == {0, 1}


@pytest.mark.feature("2.16")
def test_a_captured_graph_does_not_look_for_events_of_a_call() -> None:
    def function(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        y = x @ a
        EVENT.record()
        return y.tanh()

    torch._dynamo.reset()
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    x, a, b = inputs()
    with torch.no_grad():
        run(x, a)
        graph = npu.NPUGraph()
        with npu.graph(graph):
            result = run(x, a)
        torch.compile(with_events, backend="npugraph_ex", fullgraph=True)(x, a, b)  # other streams and events
        x.copy_(b)
        graph.replay()
        torch.testing.assert_close(result, (b @ a).tanh())


@needs_two_processors
@pytest.mark.no_red_zones
@pytest.mark.feature("2.21", "4.04")
def test_limits_hold_for_streams_that_are_entered_inside() -> None:
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with npu.npugraph_ex.scope.limit_core_num(1, 1):
            with npu.stream(OUTER):
                y = x @ a
            z = x @ b
            npu.current_stream().wait_stream(OUTER)
        return y + z

    log = log_of(compiled(function))
    assert [dict(record.limits).get("cube_core_num") for record in log] == [1, 1, None]
    assert all(len(record.workers) == 1 for record in log[:2]) and log[0].workers != log[1].workers


@pytest.mark.feature("4.04")
def test_limits_of_eager_code_are_those_of_the_stream() -> None:
    before = npu.get_stream_limit(npu.current_stream())
    with npu.npugraph_ex.scope.limit_core_num(3, 4):
        assert npu.get_stream_limit(npu.current_stream()) == {"cube_core_num": 3, "vector_core_num": 4}
        with npu.npugraph_ex.scope.limit_core_num(1, 2, OUTER):
            assert npu.get_stream_limit(OUTER) == {"cube_core_num": 1, "vector_core_num": 2}
    assert npu.get_stream_limit(npu.current_stream()) == before


@pytest.mark.feature("4.04")
def test_a_limit_above_the_cores_of_the_device_is_refused_in_compiled_code_too() -> None:
    def limited(x: torch.Tensor) -> torch.Tensor:
        with npu.npugraph_ex.scope.limit_core_num(24, 49):
            return x.sin()

    torch._dynamo.reset()
    with pytest.raises(ValueError, match="op_vectorcore_num is 49; it has to be from 1 to 48, the cores of the device"):
        torch.compile(limited, backend="npugraph_ex")(torch.ones(4, device="npu"))


@pytest.mark.feature("2.16", "4.01")
def test_forward_graphs_of_training_have_lanes() -> None:
    args = [tensor.detach().requires_grad_() for tensor in inputs()]
    events = [npu.Event(enable_timing=True) for _ in range(3)]
    torch._dynamo.reset()
    run = torch.compile(with_given_events, backend="npugraph_ex", fullgraph=True)
    times = []
    for _ in range(3):
        result, expected = run(*args, *events), with_given_events(*args, *[npu.Event() for _ in range(3)])
        times.append([event.recorded_time() for event in events])
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(torch.autograd.grad(result.sum(), args), torch.autograd.grad(expected.sum(), args))
    assert all(begin < end and side < end for begin, side, end in times)
    assert all(a < b for a, b in zip(*times[:2], strict=True))
    forward, backward = npugraph.artifacts()
    assert {task.stream for task in forward.tasks} == {0, 1} and {task.stream for task in backward.tasks} == {0}
    assert not forward.partitions and not backward.partitions
    assert len([task for task in forward.tasks if "record" in task.name]) == 3
