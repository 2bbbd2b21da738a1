# SPDX-License-Identifier: Apache-2.0
"""Streams, events and core limits of compiled graphs: marks in the graph, sections, and strands of a replay."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import npugraph
import npugraph_ex
from tests.python.backend.barriers import barrier_of, meet, needs_two_processors

marks = torch.ops.npugraph_ex
LABEL = ["_user_stream_label"]
WIDTH = 96


@pytest.fixture
def two_workers() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def inputs(width: int = WIDTH) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(width, width, generator=generator) / width**0.5 for _ in range(3)]


def beside(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    marks.scope_enter(LABEL, ["side"])
    y = x
    for _ in range(6):
        y = (y @ a).tanh()
    marks.tagged_event_record("done")
    marks.scope_exit()
    z = x
    for _ in range(6):
        z = (z @ b).tanh()
    marks.tagged_event_wait("done")
    return y + z


def meeting_beside(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    marks.scope_enter(LABEL, ["side"])
    y = meet(x @ a)
    marks.tagged_event_record("done")
    marks.scope_exit()
    z = meet(x @ b)
    marks.tagged_event_wait("done")
    return y + z


def raced(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The main stream reads ``y`` before the two streams meet, and the side stream writes it after that."""
    marks.scope_enter(LABEL, ["side"])
    y = (meet(x @ a) @ a).tanh()
    marks.scope_exit()
    return meet((y + b).sin()), y


def ordered(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    marks.scope_enter(LABEL, ["side"])
    y = x
    for _ in range(6):
        y = (y @ a).tanh()
    marks.scope_exit()
    marks.tagged_stream_wait_stream("main", "side")
    return (y + b).sin(), y


def compiled(function: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], Any]:
    """Returns the compiled function and its artifact, after a first call."""
    torch._dynamo.reset()
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True, options=options or None)
    with torch.no_grad():
        run(*inputs())
    return run, npugraph.artifacts()[-1]


def log_of(run: Callable[..., Any], *args: Any) -> list[Any]:
    with torch.no_grad(), npugraph.task_log() as log:
        run(*args)
    return sorted(log, key=lambda record: record.task)


def on(stream: int, log: list[Any]) -> list[Any]:
    return [record for record in log if record.stream == stream]


@needs_two_processors
@pytest.mark.no_red_zones
@pytest.mark.feature("2.01", "2.15", "2.16", "4.02", "12e.10")
def test_streams_overlap_on_workers_of_their_own(two_workers: None) -> None:
    run, artifact = compiled(beside)
    args = inputs()
    with torch.no_grad():
        torch.testing.assert_close(run(*args), beside(*args), rtol=1e-4, atol=1e-4)
    assert {task.stream for task in artifact.tasks} == {0, 1}
    for _ in range(300):
        log = log_of(run, *args)
        main, side = on(0, log), on(1, log)
        assert not {w for r in main for w in r.workers} & {w for r in side for w in r.workers}
        joined = [record for record in main if record.waits]
        assert len(joined) == 1 and joined[0].begin_ns >= side[-1].end_ns
    run, _ = compiled(meeting_beside)
    with torch.no_grad(), barrier_of(2):
        assert len(log_of(run, *args)) == 5


def merged_beside(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    start = x.exp()
    marks.tagged_stream_wait_stream("side", "main")
    marks.scope_enter(LABEL, ["side"])
    with npugraph_ex.scope.super_kernel("side"):
        y = ((start @ a).tanh() @ a).softmax(-1)
    marks.scope_exit()
    with npugraph_ex.scope.super_kernel("main"):
        z = ((start @ b).tanh() @ b).softmax(-1)
    marks.tagged_stream_wait_stream("main", "side")
    return (y + z) @ a


OTHER_OPTIONS = ["super_kernel_optimize", "clone_input", "clone_output", "force_recapture", "static_kernel_compile"]


@pytest.mark.parametrize("option", OTHER_OPTIONS)
def test_streams_beside_other_options(two_workers: None, option: str) -> None:
    torch._dynamo.reset()
    run = torch.compile(merged_beside, backend="npugraph_ex", dynamic=True, options={option: option != "clone_output"})
    for width in [2 * WIDTH, WIDTH] * 8:
        args = [tensor + torch.rand(()) for tensor in inputs(width)]
        with torch.no_grad():
            torch.testing.assert_close(run(*args), merged_beside(*args), rtol=1e-4, atol=1e-4)
    (artifact,) = npugraph.artifacts()
    assert {task.stream for task in artifact.tasks} == {0, 1}
    merged = [task.stream for task in artifact.tasks if task.kind == "super_kernel"]
    assert merged == ([1, 0] if option == "super_kernel_optimize" else [])


@needs_two_processors
@pytest.mark.no_red_zones
@pytest.mark.feature("4.01", "4.02")
def test_without_an_event_the_race_shows_and_with_it_never(two_workers: None) -> None:
    args = inputs()
    run, _ = compiled(raced)
    with torch.no_grad(), barrier_of(2):
        run(*args)
    expected = ordered(*args)
    run, _ = compiled(ordered)
    with torch.no_grad():
        for _ in range(50):
            assert not _is_early(log_of(run, *args))
            torch.testing.assert_close(run(*args), expected, rtol=1e-4, atol=1e-4)


def _is_early(log: list[Any]) -> bool:
    return on(0, log)[-1].begin_ns < on(1, log)[-1].end_ns


def _expect_no_race(calls: int) -> None:
    run, _ = compiled(ordered)
    args = inputs(16)
    with torch.no_grad():
        run(*args)
        expected = run(*args)
        for _ in range(calls):
            results = run(*args)
            assert all(map(torch.equal, results, expected))


@pytest.mark.feature("4.01")
def test_an_event_holds_in_a_thousand_replays(two_workers: None) -> None:
    _expect_no_race(1_000)


@pytest.mark.long
def test_an_event_holds_in_ten_thousand_replays(two_workers: None) -> None:
    _expect_no_race(10_000)


def limited(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with npugraph_ex.scope.limit_core_num(1, 1):
        marks.scope_enter(LABEL, ["side"])
        y = (x @ a).tanh() @ a
        marks.scope_exit()
        z = (x @ b).tanh() @ b
        marks.tagged_stream_wait_stream("main", "side")
        r = y + z
    return r.exp()


@needs_two_processors
@pytest.mark.no_red_zones
@pytest.mark.feature("2.21", "4.04", "12e.10")
def test_limits_of_one_worker_each(two_workers: None) -> None:
    run, _ = compiled(limited)
    args = inputs(256)
    with torch.no_grad():
        torch.testing.assert_close(run(*args), limited(*args), rtol=1e-4, atol=1e-4)
    for _ in range(20):
        log = log_of(run, *args)
        scoped = [record for record in log if record.limits]
        assert {tuple(record.limits) for record in scoped} == {(("cube_core_num", 1), ("vector_core_num", 1))}
        assert all(len(record.workers) == 1 for record in scoped)
        assert not {w for r in on(0, scoped) for w in r.workers} & {w for r in on(1, scoped) for w in r.workers}


@pytest.mark.feature("4.04")
def test_a_limit_ends_with_its_scope_and_the_inner_one_counts(two_workers: None) -> None:
    def nested(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with npugraph_ex.scope.limit_core_num(2, 2):
            with npugraph_ex.scope.limit_core_num(1, 1):
                y = x @ a
            y = y @ b
        return y @ a

    run, _ = compiled(nested)
    assert [dict(record.limits).get("cube_core_num") for record in log_of(run, *inputs())] == [1, 2, None]
    # Tasks of one stream need no events.
    assert all(not record.waits for record in log_of(run, *inputs()))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 1), ValueError, "limit_core_num: op_aicore_num is 0; it has to be at least 1"),
        ((1, -2), ValueError, "limit_core_num: op_vectorcore_num is -2; it has to be at least 1"),
        ((1.5, 1), TypeError, "limit_core_num: op_aicore_num is a float; it has to be an integer"),
        ((1, True), TypeError, "limit_core_num: op_vectorcore_num is a bool; it has to be an integer"),
    ],
)
@pytest.mark.feature("4.04")
def test_limits_that_are_refused(arguments: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        npugraph_ex.scope.limit_core_num(*arguments)


def _order_by_hand(gm: Any, inputs: Any, config: Any) -> None:
    """Puts the first product on a stream of its own, and lets the sum wait for a point behind it."""
    first, *_, last = [node for node in gm.graph.nodes if node.op == "call_function"]
    with gm.graph.inserting_before(first):
        gm.graph.call_function(marks.scope_enter.default, (LABEL, ["side"]))
    with gm.graph.inserting_after(first):
        point = gm.graph.call_function(marks.record.default)
    with gm.graph.inserting_after(point):
        gm.graph.call_function(marks.scope_exit.default)
    with gm.graph.inserting_before(last):
        gm.graph.call_function(marks.wait.default, ([point],))


@pytest.mark.feature("4.03", "12b.1")
def test_record_and_wait_of_a_custom_pass_give_order() -> None:
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.add(x @ a, x @ b)

    run, artifact = compiled(function, post_grad_custom_post_pass=_order_by_hand)
    log = log_of(run, *inputs())
    assert [record.stream for record in log] == [1, 0, 0]
    assert list(log[2].waits) == [0] and not log[1].waits
    assert "section(1)" in artifact.graph("import")
    args = inputs()
    with torch.no_grad():
        torch.testing.assert_close(run(*args), function(*args))


@pytest.mark.feature("4.03")
def test_a_wait_names_tensors() -> None:
    def wait_for_the_first(gm: Any, inputs: Any, config: Any) -> None:
        first, second, last = [node for node in gm.graph.nodes if node.op == "call_function"]
        with gm.graph.inserting_before(second):
            gm.graph.call_function(marks.scope_enter.default, (LABEL, ["side"]))
            gm.graph.call_function(marks.wait.default, ([first],))
        with gm.graph.inserting_before(last):
            gm.graph.call_function(marks.scope_exit.default)
            gm.graph.call_function(marks.wait.default, ([second],))

    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (x @ a @ b) @ a

    run, _ = compiled(function, post_grad_custom_post_pass=wait_for_the_first)
    assert [(record.stream, list(record.waits)) for record in log_of(run, *inputs())] == [(0, []), (1, [0]), (0, [1])]


KEYS = {
    "_user_stream_label": "side",
    "_user_stream_priority": "-1",
    "_user_stream_id": "7",
    "_user_stream_device_index": "0",
    "_user_stream_device_type": "1",
    "_op_aicore_num": "1",
    "_op_vectorcore_num": "2",
    "_super_kernel_scope": "block",
    "_super_kernel_options": "strict-scope-check=bypass",
}


@pytest.mark.feature("4.02")
def test_every_mark_and_every_key_in_one_graph() -> None:
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.tagged_event_record("begun", created_inside=False)
        marks.scope_enter(list(KEYS), list(KEYS.values()), need_execute=True)
        marks.tagged_event_wait("begun")
        y = ((x @ a).relu() @ b).tanh()
        marks.record_tagged_stream(y, "main")
        marks.record_tagged_stream_(y, "main")
        marks.record_tagged_on_stream(x, "side")
        marks.record_tagged_on_stream_(x, "side")
        marks.scope_exit()
        marks.tagged_event_record_on_stream("done", "side", False)
        marks.tagged_event_wait_on_stream("done", "main")
        marks.scope_enter(keys=["_user_stream_label"], values=["side"])
        marks.scope_exit()
        marks.tagged_stream_wait_stream("main", "side")
        return y + 1

    seen: list[str] = []

    def look(gm: Any, inputs: Any, config: Any) -> None:
        seen.extend(str(node.target).split(".")[1] for node in gm.graph.nodes if "npugraph_ex" in str(node.target))

    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        run, artifact = compiled(function, super_kernel_optimize=True, post_grad_custom_pre_pass=look)
    with torch.no_grad():
        torch.testing.assert_close(run(*inputs()), function(*inputs()))
    assert set(seen) == set(marks_of_the_library()) - {"record", "wait"}
    assert [(task.name, task.stream) for task in artifact.tasks[:-1]] == [("super_kernel.block", 1)]
    assert [dict(record.limits) for record in log_of(run, *inputs())] == [
        {"cube_core_num": 1, "vector_core_num": 2},
        {},
    ]
    code = artifact.to_fx("import").code
    stream = {key: value for key, value in KEYS.items() if key.startswith("_user_stream")}
    assert f"scope_enter.default({list(stream)}, {list(stream.values())})" in code
    assert "super_kernel_scope_begin.default('block', 'strict-scope-check=bypass')" in code


def marks_of_the_library() -> list[str]:
    from npugraph.fx.streams.stream_marks import marks

    return [name for name in marks().values() if hasattr(torch.ops.npugraph_ex, name) and "program" not in name]


@pytest.mark.feature("4.02")
def test_keys_that_nobody_reads_and_options_that_super_kernels_have_not() -> None:
    def scoped(keys: list[str], values: list[str]) -> Callable[..., Any]:
        def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            marks.scope_enter(keys, values)
            y = torch.sort(x @ a)[0].exp()
            marks.scope_exit()
            return y

        return function

    message = (
        r"scope_enter at .*test_streams.py:\d+ in function: nothing reads the key '_no_such_key'; keys are _user_st"
    )
    with pytest.warns(npugraph.NpugraphWarning, match=message) as caught:
        compiled(scoped(["_no_such_key", "_user_stream_label"], ["1", "side"]))
    assert len(caught) == 1
    message = r"_super_kernel_options takes options strict-scope-check=bypass or .*=abort, got 'fast'"
    with pytest.raises(RuntimeError, match=message):
        compiled(scoped(["_super_kernel_scope", "_super_kernel_options"], ["block", "fast"]))
    message = "super kernel scope 'block' has strict-scope-check=abort, and . of its . tasks cannot"
    strict = scoped(["_super_kernel_scope", "_super_kernel_options"], ["block", "strict-scope-check=abort"])
    with pytest.raises(RuntimeError, match=message):
        compiled(strict, super_kernel_optimize=True)


@pytest.mark.feature("11.23")
def test_waits_that_have_nothing_to_wait_for() -> None:
    def early(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.tagged_event_record("first")
        y = x @ a
        marks.tagged_event_wait("late")
        marks.tagged_event_record("late")
        return y @ b

    def on_stream(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.tagged_event_wait_on_stream("never", "side")
        return x @ a

    for function, name, tag, recorded in (
        (early, "tagged_event_wait", "late", "'first'"),
        (on_stream, "tagged_event_wait_on_stream", "never", "none"),
    ):
        message = (
            rf"npugraph_ex.{name}: nothing records the event '{tag}' before the wait at .*test_streams.py:\d+ in "
            rf"{function.__name__}; recorded are {recorded}"
        )
        with pytest.raises(ValueError, match=message):
            compiled(function)


@pytest.mark.feature("11.23")
def test_marks_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"npugraph_ex\.wait: got an empty list; give the tensors to wait for"):
        marks.wait([])
    with pytest.raises(ValueError, match=r"npugraph_ex\.scope_enter: 1 keys and 0 values were given"):
        marks.scope_enter(LABEL, [])

    def open_scope(x: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        return x + 1

    def closed_twice(x: torch.Tensor) -> torch.Tensor:
        marks.scope_exit()
        return x + 1

    for function, message in (
        (open_scope, "does not end in this graph"),
        (closed_twice, "does not begin in this graph"),
    ):
        with pytest.raises(RuntimeError, match=message), torch.no_grad():
            torch.compile(function, backend="npugraph_ex")(torch.ones(3))


@pytest.mark.feature("4.01", "4.02", "4.04")
@pytest.mark.parametrize("function", [beside, ordered, limited, merged_beside])
def test_forward_graphs_of_training_have_strands(two_workers: None, function: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    run = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    with torch.no_grad():
        run(*inputs())
        strands = {(record.stream, bool(record.waits), *record.limits) for record in log_of(run, *inputs())}
    args = [tensor.requires_grad_() for tensor in inputs()]
    for _ in range(10):
        result, expected = run(*args), function(*args)
        torch.testing.assert_close(result, expected)
        total, wanted = (sum(torch.as_tensor(x).sum() for x in r) for r in (result, expected))
        torch.testing.assert_close(torch.autograd.grad(total, args), torch.autograd.grad(wanted, args))
    forward, backward = npugraph.artifacts()[-2:]
    assert {(task.stream, bool(task.waits), *task.limits) for task in forward.tasks} == strands
    assert {task.stream for task in forward.tasks} == {0, 1} and {task.stream for task in backward.tasks} == {0}
    assert "tagged_event_wait_on_stream" in forward.to_fx().code


FIRST_MARK = """
import torch, npugraph
def function(x):
    torch.ops.npugraph_ex.wait([torch.ops.npugraph_ex.record()])
    return x + 1
print(torch.compile(function, backend="npugraph_ex", fullgraph=True)(torch.ones(1)).item())
"""


def test_a_record_is_traced_before_anything_was_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_MARK], capture_output=True, text=True, check=False)
    assert done.stdout == "2.0\n", done.stderr


def test_what_is_computed_anew_is_on_one_stream() -> None:
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        y = checkpoint(lambda t: (t @ a).tanh() @ a, x, use_reentrant=False)
        marks.scope_exit()
        point = marks.record()
        marks.wait([point])
        return y + (x @ b).tanh()

    args = [tensor.requires_grad_() for tensor in inputs(8)]
    torch._dynamo.reset()
    result = torch.compile(function, backend="npugraph_ex", fullgraph=True)(*args)
    expected = function(*args)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(torch.autograd.grad(result.sum(), args), torch.autograd.grad(expected.sum(), args))
    assert {task.stream for artifact in npugraph.artifacts() for task in artifact.tasks} == {0}


@pytest.mark.feature("2.13")
def test_inputs_that_another_stream_writes(two_workers: None) -> None:
    def update(cache: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        before = cache * 2
        marks.tagged_stream_wait_stream("side", "main")
        marks.scope_enter(LABEL, ["side"])
        cache.add_(x @ w)
        marks.scope_exit()
        marks.tagged_stream_wait_stream("main", "side")
        return before + cache

    run, _ = compiled(update)
    cache, x, w = inputs()
    expected_cache = cache.clone()
    for _ in range(20):
        with torch.no_grad():
            torch.testing.assert_close(run(cache, x, w), update(expected_cache, x, w))
        torch.testing.assert_close(cache, expected_cache)


@pytest.mark.feature("2.09")
def test_a_concatenation_of_parts_of_another_stream_keeps_its_own() -> None:
    def parts(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [-x, x * y]

    def across(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        both = parts(x, a)
        marks.scope_exit()
        marks.tagged_stream_wait_stream("main", "side")
        return torch.cat(both)

    def together(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        joined = torch.cat(parts(x, a))
        marks.scope_exit()
        return joined

    copied = 2 * 4 * WIDTH * WIDTH
    for function, streams, waits, bytes_ in ((across, [1, 1, 0], [1], copied), (together, [1, 1], [], 0)):
        run, artifact = compiled(function, generate_code=False)
        with torch.no_grad():
            torch.testing.assert_close(run(*inputs()), function(*inputs()), rtol=0, atol=0)
        log = log_of(run, *inputs())
        assert [record.stream for record in log] == streams
        assert list(log[-1].waits) == waits
        assert artifact.memory["copied_bytes_per_replay"] == bytes_


def test_a_saved_program_keeps_its_streams(tmp_path: Any, two_workers: None) -> None:
    run, artifact = compiled(beside)
    path = tmp_path / "two_streams.npug"
    artifact.save(path)
    loaded = npugraph.load(path)
    args = inputs()
    with torch.no_grad():
        torch.testing.assert_close(loaded(args), (run(*args),))
    assert [(r.stream, list(r.waits)) for r in log_of(loaded, args)] == [
        (r.stream, list(r.waits)) for r in log_of(run, *args)
    ]


def test_random_numbers_keep_their_order(two_workers: None) -> None:
    def draws(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        y = torch.rand_like(x) @ a
        marks.scope_exit()
        z = torch.rand_like(x) @ b
        marks.tagged_stream_wait_stream("main", "side")
        return y + 2 * z

    run, _ = compiled(draws)
    args = inputs()
    for seed in range(20):
        torch.manual_seed(seed)
        with torch.no_grad():
            result = run(*args)
        torch.manual_seed(seed)
        torch.testing.assert_close(result, draws(*args))


def test_an_error_of_another_stream_reaches_the_caller(two_workers: None) -> None:
    def gather(x: torch.Tensor, index: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        y = torch.ops.aten.index_select(x, 0, index)
        marks.scope_exit()
        z = x @ w
        marks.tagged_stream_wait_stream("main", "side")
        return y + z

    torch._dynamo.reset()
    run = torch.compile(gather, backend="npugraph_ex", fullgraph=True)
    x, w, _ = inputs()
    good, bad = torch.arange(WIDTH), torch.full((WIDTH,), WIDTH)
    with torch.no_grad():
        for index in (good, bad, good):
            if index is bad:
                with pytest.raises(IndexError, match="out of range"):
                    run(x, index, w)
            else:
                torch.testing.assert_close(run(x, index, w), gather(x, index, w))


@pytest.mark.feature("2.08c")
def test_a_rule_matches_on_one_stream_only() -> None:
    def search(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.sinh(x))

    def across(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        y = torch.sinh(x)
        marks.scope_exit()
        marks.tagged_stream_wait_stream("main", "side")
        return torch.tanh(y)

    def together(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        marks.scope_enter(LABEL, ["side"])
        y = torch.tanh(torch.sinh(x))
        marks.scope_exit()
        return y

    npugraph_ex.register_replacement(search, torch.sin, [torch.randn(4, 4)])
    try:
        _, artifact = compiled(across)
        assert not artifact.replacements
        assert ["all operators are on one stream" in miss.reason for miss in artifact.near_misses] == [True]
        run, artifact = compiled(together)
        assert len(artifact.replacements) == 1
        with torch.no_grad():
            torch.testing.assert_close(run(*inputs()), inputs()[0].sin())
    finally:
        next(rule for rule in npugraph_ex.replacements() if "search" in rule.name).remove()
