# SPDX-License-Identifier: Apache-2.0
"""Unusual inputs: at any place of their storage, too short, on other devices, lazily conjugated, in other threads and
in the child of a fork."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import fx
from torch._dynamo.utils import counters
from torch._subclasses import FakeTensorMode

import npugraph
from npugraph import _C
from npugraph.fx.decompose.prepare import prepare
from npugraph.fx.translate.importer import InputInfo, import_graph
from tests.python.backend.checks import check, check_captured, compile_ex


@pytest.fixture(autouse=True, scope="module")
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def window(first: int, end: int, of: int = 16) -> Callable[[], tuple[torch.Tensor]]:
    return lambda: (torch.arange(float(of))[first:end],)


# Places in storages


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_update_through_as_strided_of_a_window(dynamic: bool) -> None:
    def fn(x):
        x.as_strided((2,), (1,), 5).mul_(3)
        return x * 2

    check_captured(fn, window(4, 16), dynamic=dynamic)
    check_captured(fn, window(4, 15), window(4, 16), dynamic=dynamic)


def test_an_update_in_front_of_the_window_is_seen_in_the_storage() -> None:
    def fn(x):
        y = torch.as_strided_scatter(x, torch.full((3,), 9.0), (3,), (1,), 3)
        return y, y.as_strided((8,), (1,), 0) + 0

    check_captured(fn, window(4, 16))


@pytest.mark.parametrize("offset", [None, 0, 1, 5])
def test_as_strided_copies(offset: int | None) -> None:
    check_captured(lambda x: torch.as_strided_copy(x, (2, 2), (1, 2), offset), window(4, 8))


@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_that_lie_elsewhere_in_their_storage(dynamic: bool) -> None:
    def fn(x):
        return x.as_strided((8,), (1,), 0) + x.sum()

    check(fn, window(0, 4, 8), window(4, 8, 8), window(2, 6, 9), dynamic=dynamic)
    check(fn, window(4, 8, 8), window(0, 4, 8), dynamic=dynamic)
    assert counters["npugraph_ex"]["shifted_inputs"] > 0


@pytest.mark.parametrize("dynamic", [False, True])
def test_returned_views_of_an_overwritten_window(dynamic: bool) -> None:
    def fn(x):
        turned = x.reshape(x.shape[-1], -1)
        return x.copy_(x + x).view(-1), turned

    def rows(n: int) -> Callable[[], tuple[torch.Tensor]]:
        return lambda: (torch.arange(3.0 * (n + 1)).view(n + 1, 3)[1:],)

    check(fn, rows(5), rows(3), dynamic=dynamic)


def test_a_storage_that_ends_before_the_named_place() -> None:
    compiled = compile_ex(lambda x: x.as_strided((8,), (1,), 0) + 0)
    compiled(*window(0, 4, 8)())
    with pytest.raises(RuntimeError, match="out of bounds"):  # as in eager
        compiled(*window(0, 4, 6)())
    assert torch.equal(compiled(*window(0, 4, 9)()), torch.arange(8.0))


def test_as_strided_that_counts_from_the_window_admits_any_place() -> None:
    before = counters["npugraph_ex"]["shifted_inputs"]
    artifacts = check_captured(lambda x: x.as_strided((2,), (1,)) + 1, window(0, 4), window(4, 8), window(12, 16))
    assert counters["npugraph_ex"]["shifted_inputs"] == before
    assert artifacts[-1].counters["replays"] == 6


def test_training_with_inputs_that_lie_elsewhere() -> None:
    def fn(w, x):
        return (w * x.as_strided((4,), (1,), 0)).sum()

    compiled = compile_ex(fn)
    with torch.enable_grad():
        for make in (window(0, 4, 8), window(4, 8, 8)):
            gradients = []
            for run in (fn, compiled):
                w = torch.ones(4, requires_grad=True)
                run(w, *make()).backward()
                gradients.append(w.grad)
            assert torch.equal(*gradients)


# Memory of inputs


def test_sizes_that_contradict_each_other_are_refused() -> None:
    compiled = compile_ex(lambda x, y: x + y, dynamic=True)
    compiled(torch.ones(6), torch.ones(6))
    run = npugraph.artifacts()[-1]._core.callable(boxed=True)
    (x_plus_y,) = run([6, torch.ones(6), torch.ones(6)])
    assert torch.equal(x_plus_y, torch.full((6,), 2.0))
    with pytest.raises(
        ValueError, match=r"\(L\['y'\]\) has sizes \[3\]; the graph was compiled for \[s\d+\] with s\d+=6"
    ):
        run([6, torch.ones(6), torch.ones(3)])
    run([6, torch.ones(6), torch.ones(6)])


# Conjugates


def test_returned_views_of_lazily_conjugated_inputs() -> None:
    def fn(x):
        return x.view(2, 3)[1], x[0].sum()

    compiled = compile_ex(fn)
    for make in (lambda: torch.randn(6, dtype=torch.complex64)[None].conj(),) * 3:
        x = make()
        view, total = compiled(x)
        assert torch.equal(view.resolve_conj(), x.view(2, 3)[1].resolve_conj())
        torch.testing.assert_close(total, x.sum())
    run = npugraph.artifacts()[-1]._core.callable(boxed=True)
    x = make()
    for result in run([x]):
        assert 0 <= result.storage_offset() <= 6


# Results


def test_calls_inside_of_the_making_of_results() -> None:
    def graph_of(fn: Callable[..., object], x: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
        compile_ex(fn, dynamic=False)(x)
        return npugraph.artifacts()[-1]._core.callable(boxed=True)

    small, large = torch.randn(7), torch.randn(9, 8)
    inner = graph_of(lambda x: tuple(x[i:].clone() for i in range(6)), small)
    outer = graph_of(lambda x: tuple((x[:i, i:] + 1).t() for i in range(1, 6)), large)
    want = outer([large])
    calls = []

    def on_collection(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            calls.append(inner([small]))

    gc.callbacks.append(on_collection)
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        results = [outer([large]) for _ in range(20)]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(on_collection)
    # Since Python 3.12, collections begin between bytecodes, and not when C++ makes an object.
    assert len(calls) >= (20 if sys.version_info >= (3, 12) else 21)
    for result in results:
        for got, expected in zip(result, want, strict=True):
            assert got.stride() == expected.stride()
            assert torch.equal(got, expected)


# Operators


def define(schema: str, kernel: Callable[..., object]) -> torch.library.Library:
    library = torch.library.Library("regress", "FRAGMENT")
    library.define(schema)
    name = schema.split("(")[0]
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"regress::{name}", lambda x: torch.empty_like(x), lib=library)
    return library


def test_an_operator_that_is_defined_anew_writes_its_argument() -> None:
    def fn(x):
        y = torch.ops.regress.anew(x)
        return x + y

    library = define("anew(Tensor x) -> Tensor", lambda x: x * 2)
    check(fn, lambda: (torch.ones(3),))
    library._destroy()
    torch._dynamo.reset()

    def double(x):
        x.mul_(2)
        return x.clone()

    library = define("anew(Tensor(a!) x) -> Tensor", double)
    check(fn, lambda: (torch.ones(3),))
    check(lambda x: fn(x + 0), lambda: (torch.ones(3),))
    library._destroy()


def traced(fn: Callable[..., object], *args: torch.Tensor) -> tuple[fx.GraphModule, list[InputInfo]]:
    """Returns a graph of `fn` for the importer, and its inputs. It is not functionalised: operators stay as they were
    called."""
    graph = fx.Graph()
    mode = FakeTensorMode()
    nodes = []
    for i, arg in enumerate(args):
        nodes.append(graph.placeholder(f"x{i}"))
        nodes[-1].meta["val"] = mode.from_tensor(arg)
    results = fn(graph, *nodes)
    for node in graph.nodes:
        if node.op == "call_function":
            with mode:
                values = [n.meta["val"] if isinstance(n, fx.Node) else n for n in node.args]
                node.meta["val"] = node.target(*values)
    graph.output(results)
    infos = [InputInfo("user", f"x{i}") for i in range(len(args))]
    return fx.GraphModule(torch.nn.Module(), graph), infos


def run_traced(fn: Callable[..., object], *args: torch.Tensor) -> tuple[list[torch.Tensor], list[str]]:
    gm, infos = traced(fn, *args)
    imported = import_graph(prepare(gm), "traced", infos)
    core = _C.Artifact.compile(imported.graph, _C.CompileRequest(), imported.partitions, [])
    return list(core.callable(boxed=True)(list(args))), [partition.target for partition in imported.partitions]


def test_operators_that_may_return_their_argument() -> None:
    aten = torch.ops.aten

    def fn(graph, x, y):
        same = graph.call_function(aten.contiguous.default, (x,))
        copied = graph.call_function(aten.contiguous.default, (y,))
        viewed = graph.call_function(aten.reshape.default, (x, [3, 2]))
        reshaped = graph.call_function(aten.reshape.default, (y, [6]))
        flat = graph.call_function(aten.view.default, (copied, [6]))
        return tuple(
            graph.call_function(aten.add.Tensor, (value, 1)) for value in (same, copied, viewed, reshaped, flat)
        )

    x, y = torch.randn(2, 3), torch.randn(3, 2).t()
    results, partitions = run_traced(fn, x, y)
    want = (x, y.contiguous(), x.reshape(3, 2), y.reshape(6), y.reshape(6))
    for got, expected in zip(results, want, strict=True):
        assert torch.equal(got, expected + 1)
    assert "aten.contiguous" in partitions


def test_an_operator_that_returns_a_view_of_its_second_argument() -> None:
    library = torch.library.Library("regress", "FRAGMENT")
    library.define("second(Tensor x, Tensor(a) y) -> Tensor(a)")
    library.impl("second", lambda x, y: y[1:], "CompositeExplicitAutograd")

    def fn(graph, x, y):
        part = graph.call_function(torch.ops.regress.second.default, (x, y))
        return (graph.call_function(torch.ops.aten.mul.Tensor, (part, 2)), part)

    x, y = torch.randn(4), torch.randn(6)
    results, partitions = run_traced(fn, x, y)
    assert torch.equal(results[0], y[1:] * 2)
    assert results[1].data_ptr() == y[1:].data_ptr()
    assert partitions == []
    library._destroy()


# Devices


def test_tensors_of_other_devices_are_passed_on() -> None:
    def fn(x, m):
        other = torch.empty(3, device="meta")
        return x * 2, m + other, other.sum()

    compiled = compile_ex(fn)
    for _ in range(2):
        x = torch.randn(3)
        double, total, scalar = compiled(x, torch.empty(3, device="meta"))
        assert torch.equal(double, x * 2)
        assert total.device.type == "meta" and total.shape == (3,)
        assert scalar.device.type == "meta" and scalar.shape == ()
    kinds = [task.kind for task in npugraph.artifacts()[-1].tasks]
    assert "python" not in kinds
    assert npugraph.artifacts()[-1].partitions == []


# Forks


def in_child(body: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os._exit(0 if body() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("max_concurrent", [1, 2])
def test_a_fork_while_another_thread_runs(max_concurrent: int) -> None:
    inside, go_on = threading.Event(), threading.Event()

    @torch.library.custom_op("regress::wait_for", mutates_args=())
    def wait_for(x: torch.Tensor) -> torch.Tensor:
        if waits.is_set() and threading.current_thread() is not threading.main_thread():
            inside.set()
            assert go_on.wait(60)
        return x + 1

    wait_for.register_fake(torch.empty_like)
    waits = threading.Event()
    compiled = compile_ex(lambda x: wait_for(x.sin()).cos(), options={"max_concurrent": max_concurrent})
    x = torch.randn(5)
    want = compiled(x)
    waits.set()
    results = []
    other = threading.Thread(target=lambda: results.append(compiled(x)))
    other.start()
    assert inside.wait(60)
    try:
        assert in_child(lambda: all(torch.equal(compiled(x), want) for _ in range(3)))
        assert in_child(lambda: torch.equal(compiled(x), want) and npugraph.reset() is None)
    finally:
        go_on.set()
        other.join()
    assert torch.equal(results[0], want)
    assert torch.equal(compiled(x), want)


def test_a_fork_inside_of_a_run() -> None:
    @torch.library.custom_op("regress::fork_here", mutates_args=())
    def fork_here(x: torch.Tensor) -> torch.Tensor:
        if forks:
            forks.clear()
            assert in_child(lambda: torch.equal(compiled(given), want))
        return x + 1

    fork_here.register_fake(torch.empty_like)
    forks: list[bool] = []
    compiled = compile_ex(lambda x: fork_here(x.sin()).cos(), options={"max_concurrent": 1})
    given = torch.randn(5)
    want = compiled(given)
    forks.append(True)
    assert torch.equal(compiled(given), want)
    assert not forks


@pytest.mark.parametrize("dynamic", [False, True])
def test_empty_inputs_behind_the_end_of_their_storage(dynamic) -> None:
    def fn(x):
        y = x.view(-1)
        return y + y, x * 2

    check(fn, lambda: (torch.zeros(5, 0, dtype=torch.float64)[1:],), lambda: (torch.zeros(3, 0)[2:],), dynamic=dynamic)
