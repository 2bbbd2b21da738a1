# SPDX-License-Identifier: Apache-2.0
"""The stream on which a compiled function is called: the tasks that run there, the limits of the stream, and the calls
that Ascend's documents forbid in compiled code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import npu
from torch._dynamo.exc import Unsupported

import npugraph
from npugraph.inference import cache_compile
from tests.python.backend.checks import compile_ex
from tests.python.backend.runs.test_capture_rules import held

USER, SIDE = npu.Stream(), npu.Stream()
BEGIN, END = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
ALL = npu.get_device_limit(0)


@pytest.fixture(autouse=True)
def two_workers() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    npugraph.reset()
    with torch.no_grad():
        yield
    torch.set_num_threads(before)
    npu.set_stream(npu.default_stream())
    npu.reset_stream_limit(USER)
    npu.set_device_limit(0, *ALL.values())


def square(device: str = "npu") -> torch.Tensor:
    return torch.randn(256, 256, generator=torch.Generator().manual_seed(0)).to(device) / 16


def layer(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x, -1)


def beside(x: torch.Tensor) -> torch.Tensor:
    with npu.stream(SIDE):
        y = (x @ x).tanh()
    z = torch.softmax(x @ x, -1)
    npu.current_stream().wait_stream(SIDE)
    return y + z


def log_of(run: Callable[..., Any], x: torch.Tensor) -> list[Any]:
    with npugraph.task_log() as log:
        run(x)
    return sorted(log, key=lambda record: record.task)


@pytest.mark.feature("1.25")
def test_a_replay_is_on_the_stream_of_its_call(tmp_path) -> None:
    run, x = compile_ex(beside), square()
    for stream in (npu.default_stream(), USER, npu.default_stream(), npu.Stream()):
        with npu.stream(stream), npugraph.trace(tmp_path / "trace.json"):
            log = log_of(run, x)
        assert {(record.stream, record.stream_id) for record in log} == {(0, stream.stream_id), (1, None)}
        spans = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        found = [span["args"] for span in spans if span.get("cat") == "task"]
        assert {(args["stream"], args.get("stream_id")) for args in found} == {(0, stream.stream_id), (1, None)}
    with npu.stream(USER):
        assert {record.stream_id for record in log_of(compile_ex(layer), square("cpu"))} == {None}
    assert len(npugraph.artifacts()) == 2  # another stream needs no other graph


@pytest.mark.feature("1.25")
def test_events_around_a_replay() -> None:
    run, x = compile_ex(layer), square()
    with npu.stream(USER):
        BEGIN.record()
        log = log_of(run, x)
        END.record()
    END.synchronize()
    USER.synchronize()
    npu.synchronize()
    assert END.query()
    assert USER.query()
    assert BEGIN.recorded_time() <= log[0].begin_ns
    assert log[-1].end_ns <= END.recorded_time()
    milliseconds = (log[-1].end_ns - log[0].begin_ns) * 1e-6
    assert milliseconds <= BEGIN.elapsed_time(END)


def with_synchronize(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    npu.synchronize()
    return y * 2


def with_stream_synchronize(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    npu.current_stream().synchronize()
    return y * 2


def with_event_synchronize(x: torch.Tensor) -> torch.Tensor:
    event, y = npu.Event(), x + 1
    event.record()
    event.synchronize()
    return y * (2 if event.query() and npu.current_stream().query() else 3)


@pytest.mark.feature("1.25")
@pytest.mark.parametrize("function", [with_synchronize, with_stream_synchronize, with_event_synchronize])
def test_waits_in_compiled_code_are_an_order_of_streams(function: Callable[..., Any]) -> None:
    """Within one stream a wait is the order of its tasks, and nothing runs in Python."""
    run, x = compile_ex(function), square()
    torch.testing.assert_close(run(x), function(x))
    (artifact,) = npugraph.artifacts()
    assert not artifact.partitions
    assert {record.kind for record in log_of(run, x)} == {"kernel"} or len(artifact.tasks) == 1


@pytest.mark.feature("1.25")
def test_a_wait_in_a_function_that_is_cached(tmp_path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return with_synchronize(x)

    x = square()
    run = cache_compile(Model().forward, cache_dir=tmp_path)
    torch.testing.assert_close(run(x), with_synchronize(x))
    with npu.stream(USER):
        assert {record.stream_id for record in log_of(run, x)} == {USER.stream_id}


@pytest.mark.feature("1.25")
def test_streams_that_become_one_are_in_order() -> None:
    def on_side(x: torch.Tensor) -> torch.Tensor:
        with npu.stream(SIDE):
            y = x @ x
        return y + 1  # in order if the call is on SIDE

    def on_two(x: torch.Tensor, first: Any, second: Any) -> torch.Tensor:
        with npu.stream(first):
            y = x @ x
        with npu.stream(second):
            return y + 1

    x = square()
    run = compile_ex(on_side)
    run(x)
    with npu.stream(SIDE):
        assert torch.equal(run(x), on_side(x))
    assert held("merged_streams") == 1
    run(x)
    run = compile_ex(on_two)
    for streams in ((USER, SIDE), (SIDE, USER)):
        run(x, *streams)
    assert held("merged_streams") == 1
    assert torch.equal(run(x, SIDE, SIDE), on_side(x))
    assert held("merged_streams") == 2


def asks_for_time(x: torch.Tensor) -> torch.Tensor:
    BEGIN.record()
    y = x + 1
    END.record()
    return y * (1 if BEGIN.elapsed_time(END) < 0 else 2)  # refused


def branches(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 0:  # refused
        return y * 2
    return y - 1


@pytest.mark.feature("1.25")
@pytest.mark.parametrize(
    ("function", "says"),
    [(asks_for_time, "Event.elapsed_time"), (branches, "data-dependent branching")],
)
def test_what_needs_the_host_in_between(function: Callable[..., Any], says: str) -> None:
    """Such a call ends a graph. If there may be only one graph, an error names the line."""
    x = square()
    lines, first = inspect.getsourcelines(function)
    line = first + next(i for i, text in enumerate(lines) if text.endswith("# refused\n"))
    with pytest.raises(Unsupported, match=says) as refused:
        compile_ex(function)(x)
    assert f'test_calling_stream.py", line {line}, in {function.__name__}' in str(refused.value)
    npugraph.reset()
    run = compile_ex(function, fullgraph=False)
    with npu.stream(USER):
        log = log_of(run, x)
        for sign in (1, -1):
            torch.testing.assert_close(run(sign * x - 0.1), function(sign * x - 0.1))
    assert {record.stream_id for record in log} == {USER.stream_id}
    assert len({record.artifact for record in log}) == 2


# Limits of the stream.


def recaptures(name: str) -> int:
    return held(f"recapture_due_to_global_limit_core_change_{name}")


@pytest.mark.no_red_zones
@pytest.mark.feature("3.03", "3.16")
@pytest.mark.parametrize("dynamic", [False, True])
def test_other_limits_of_the_calling_stream_capture_again(dynamic: bool) -> None:
    run, x = compile_ex(layer, dynamic=dynamic), square()
    want = layer(x)

    def call(recaptured: int, limits: dict[str, int], modes: list[str]) -> set[int]:
        workers: set[int] = set()
        for mode in modes:
            log = log_of(run, x)
            assert {record.mode for record in log} == {mode}
            assert all(dict(record.limits) == limits for record in log)
            workers.update(*(record.workers for record in log))
            torch.testing.assert_close(run(x), want)
        assert recaptures("layer_0") == recaptured
        assert held("captured_layer_0") == 1
        return workers

    one = {"cube_core_num": 1, "vector_core_num": 1}
    call(0, {}, ["capture", "replay", "replay"])
    npu.set_stream_limit(USER, 1, 1)
    call(0, {}, ["replay"])
    with npu.stream(USER):
        assert call(1, one, ["capture", "replay", "replay"]) == {0}
        npu.reset_stream_limit(USER)
        call(2, {}, ["capture", "replay", "replay"])
    call(2, {}, ["replay"])
    npu.set_device_limit(0, 1, 1)
    assert call(3, one, ["capture", "replay"]) == {0}
    npu.set_device_limit(0, *ALL.values())
    with npu.npugraph_ex.scope.limit_core_num(1, 1):
        assert call(3, one, ["replay"]) == {0}
    call(4, {}, ["capture", "replay"])
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["recaptures.global_limit_core_change"] == 4
    assert len(artifact.instances) == 1


@pytest.mark.no_red_zones
@pytest.mark.feature("3.16")
def test_whom_limits_of_the_calling_stream_bind() -> None:
    """Limits bind tasks of the call that have none of their own. They bind no tasks on streams that the code names, and
    no graphs of cpu."""

    def scoped(x: torch.Tensor) -> torch.Tensor:
        with npu.npugraph_ex.scope.limit_core_num(2, 2):
            y = (x @ x).tanh()
        return torch.softmax(y @ x, -1)

    x = square()
    npu.set_stream_limit(USER, 1, 1)
    runs = [(compile_ex(scoped), [2, 1]), (compile_ex(beside), [None, 1])]
    for run, limits in runs:
        want = run(x)
        with npu.stream(USER):
            log = log_of(run, x)
            torch.testing.assert_close(run(x), want)
        found = [dict(record.limits).get("cube_core_num") for record in log]
        assert list(dict.fromkeys(found)) == limits
        assert all(len(record.workers) == 1 for record, limit in zip(log, found, strict=True) if limit == 1)
    with npu.stream(USER):
        run = compile_ex(layer)
        log = log_of(run, square("cpu")) + log_of(run, square("cpu"))
    assert log and all(not record.limits for record in log)
    assert recaptures("layer_0") == 0


@pytest.mark.no_red_zones
@pytest.mark.feature("3.16")
def test_a_backward_pass_is_within_the_limits_of_its_stream() -> None:
    with torch.enable_grad(), npu.stream(USER):
        x = square().requires_grad_()
        run = compile_ex(layer)
        npu.set_stream_limit(USER, 1, 1)
        with npugraph.task_log() as log:
            run(x).square().sum().backward()
    assert {record.artifact for record in log} == {"layer_0.forward", "layer_0.backward"}
    assert {record.stream_id for record in log} == {USER.stream_id}
    assert all(len(record.workers) == 1 for record in log)
