# SPDX-License-Identifier: Apache-2.0
"""Compiled functions over tensors of npu: the same Programs as over cpu, and results on npu."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.device.captured_calls import capture as captured


def results(fn: Callable[..., Any], *arguments: torch.Tensor, device: str = "npu", **options: Any) -> Any:
    """Calls ``fn``, compiled, twice with ``arguments`` on ``device``. Returns the results of the second call."""
    compiled = compile_ex(fn, **options)
    own = [one.to(device) for one in arguments]
    with torch.no_grad():
        compiled(*[one.clone() for one in own])
        return compiled(*own)


@pytest.mark.no_sanitizer  # the product for cpu is a precompiled kernel
def test_a_model_runs_as_generated_code_with_results_on_npu():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 8)
    )
    model.eval()
    x = torch.randn(4, 64)
    on_cpu = results(copy.deepcopy(model), x, device="cpu")
    compiled = compile_ex(copy.deepcopy(model).npu())
    with torch.no_grad():
        on_npu = compiled(x.npu())
    assert on_npu.device == torch.device("npu:0")
    assert torch.equal(on_npu.cpu(), on_cpu)
    assert not {"aten", "python"} & {task.kind for task in npugraph.artifacts()[-1].tasks}


def test_results_have_the_device_of_eager():
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2, x.cpu() + 1, torch.ones(3, device="npu:1") + x.to("npu:1").sum(), torch.arange(4), x.sum().cpu()

    x = torch.randn(3, 3, device="npu")
    got, want = results(fn, x), fn(x)
    assert [one.device for one in got] == [one.device for one in want]
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.cpu(), other.cpu())


def test_a_copy_to_another_device_is_memory_of_its_own():
    x = torch.zeros(4, device="npu")
    y = results(lambda x: x.cpu(), x)
    y.add_(1)
    assert x.sum().item() == 0
    z = results(lambda x: x.to("npu:1"), x)
    z.add_(1)
    assert x.sum().item() == 0 and z.device.index == 1


def test_inputs_are_written_in_place():
    def fn(cache: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        cache[1:2] = value
        cache.mul_(2)
        return cache.sum(0)

    cache, value = torch.ones(4, 8, device="npu"), torch.full((1, 8), 3.0, device="npu")
    compiled = compile_ex(fn)
    with torch.no_grad():
        result = compiled(cache, value)
    assert cache[:, 0].tolist() == [2, 6, 2, 2] and result[0].item() == 12 and cache.device == result.device


def test_views_of_inputs_and_results_share_memory():
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = x + 1
        return x[1:], y, y.t()

    x = torch.randn(3, 3, device="npu")
    compiled = compile_ex(fn)
    with torch.no_grad():
        view, y, transposed = compiled(x)
    assert {one.device.type for one in (view, y, transposed)} == {"npu"}
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    transposed[0, 2] = 7
    assert y[2, 0].item() == 7
    view.zero_()
    assert x[1:].sum().item() == 0


def test_host_scalars_join():
    x, scale = torch.randn(4, device="npu"), torch.tensor(3.0)
    with torch.no_grad():
        got = compile_ex(lambda x, scale: x * scale)(x, scale)
    assert got.device == x.device and torch.equal(got, x * 3)


@pytest.mark.feature("1.25")
def test_random_numbers_are_those_of_eager_on_npu():
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.rand_like(x), torch.nn.functional.dropout(x, 0.5), torch.randn(3, device="npu"), torch.randn(3)

    x = torch.ones(16, device="npu")
    compiled = compile_ex(fn)
    torch.manual_seed(3)
    torch.randn(5)  # the two generators have different states
    want, state, cpu_state = fn(x), torch.npu.get_rng_state(), torch.get_rng_state()
    torch.manual_seed(3)
    torch.randn(5)
    with torch.no_grad():
        got = compiled(x)
    for one, other in zip(got, want, strict=True):
        assert one.device == other.device and torch.equal(one, other)
    assert torch.equal(torch.npu.get_rng_state(), state) and torch.equal(torch.get_rng_state(), cpu_state)


@pytest.mark.feature("7.04")
def test_custom_operators_get_tensors_of_npu():
    with torch.library._scoped_library("npu_compiled_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.define("bump(Tensor(a!) x) -> ()")
        seen = []

        def twice(x: torch.Tensor) -> torch.Tensor:
            seen.append(x.device)
            return x * 2

        library.impl("twice", twice, "PrivateUse1")
        library.impl("bump", lambda x: seen.append(x.add_(1).device), "PrivateUse1")
        library.impl("twice", torch.empty_like, "Meta")
        library.impl("bump", lambda x: None, "Meta")

        def fn(x: torch.Tensor) -> torch.Tensor:
            y = torch.ops.npu_compiled_test.twice(x + 1) - 1
            torch.ops.npu_compiled_test.bump(y)
            return y

        x = torch.ones(3, device="npu:1")
        seen.clear()
        got = results(fn, x, device="npu:1")
        assert got.device == x.device and got.tolist() == [4, 4, 4]
        assert set(seen) == {torch.device("npu:1")} and len(seen) == 4


def test_what_an_operator_keeps_stays_as_it_was():
    with torch.library._scoped_library("npu_compiled_test", "DEF") as library:
        library.define("keep(Tensor x) -> Tensor")
        kept = []

        def keep(x: torch.Tensor) -> torch.Tensor:
            kept.append(x)
            return x * 2

        library.impl("keep", keep, "PrivateUse1")
        library.impl("keep", torch.empty_like, "Meta")
        compiled = compile_ex(lambda x: torch.ops.npu_compiled_test.keep(x + 1) + 1)
        with torch.no_grad():
            for number in range(3):
                compiled(torch.full((4,), float(number), device="npu"))
    assert [one.tolist() for one in kept] == [[number + 1.0] * 4 for number in range(3)]
    assert all(one.device.type == "npu" for one in kept)


def test_changing_sizes_compile_once():
    compiled = compile_ex(lambda x: (x * 2).softmax(-1), dynamic=True)
    before = len(npugraph.artifacts())
    with torch.no_grad():
        for rows in (2, 5, 3):
            x = torch.randn(rows, 7, device="npu")
            torch.testing.assert_close(compiled(x), (x * 2).softmax(-1))
    assert len(npugraph.artifacts()) == before + 1


@pytest.mark.feature("1.25")
def test_compiled_training_on_npu_has_the_gradients_of_cpu():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    x = torch.randn(4, 8)
    model(x).sum().backward()
    other = copy.deepcopy(model).npu()
    other.zero_grad()
    compile_ex(other)(x.npu()).sum().backward()
    for one, want in zip(other.parameters(), model.parameters(), strict=True):
        assert one.grad.device.type == "npu"
        torch.testing.assert_close(one.grad.cpu(), want.grad)


@pytest.mark.parametrize("backend", ["aot_eager", "npugraph_ex"])
def test_random_numbers_of_checkpointed_parts_come_again(backend: str):
    w = torch.randn(8, 8, device="npu", requires_grad=True)
    x = torch.randn(4, 8, device="npu", requires_grad=True)

    def fn(x: torch.Tensor) -> torch.Tensor:
        part = lambda x: torch.nn.functional.dropout((x @ w).sin(), 0.5)  # noqa: E731
        return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False).sum()

    gradients, states = [], []
    for run in (fn, torch.compile(fn, backend=backend, fullgraph=True)):
        torch.npu.manual_seed(5)
        gradients.append(torch.autograd.grad(run(x), (x, w)))
        states.append(torch.npu.get_rng_state())
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(*states)


def test_saved_programs_check_the_device(tmp_path):
    model = torch.nn.Linear(4, 2).eval().npu()
    x = torch.randn(3, 4, device="npu")
    with torch.no_grad():
        expected = compile_ex(model)(x)
    npugraph.artifacts()[-1].save(tmp_path / "linear.npugraph")
    loaded = npugraph.load(tmp_path / "linear.npugraph", model)
    with torch.no_grad():
        got = loaded(x)
        got = got[0] if isinstance(got, tuple) else got
        assert got.device == x.device and torch.equal(got, expected)
        with pytest.raises(ValueError, match="device cpu; the graph was compiled for npu:0"):
            loaded(x.cpu())


def test_devices_are_guarded():
    compiled = compile_ex(lambda x: x + 1)
    with torch.no_grad():
        for device in ("npu:0", "cpu", "npu:1"):
            assert compiled(torch.ones(2, device=device)).device == torch.device(device)


def test_queries_of_the_device_are_part_of_the_graph():
    def fn(x: torch.Tensor) -> torch.Tensor:
        assert torch.npu.is_available() and torch.npu.device_count() == 2
        properties = torch.npu.get_device_properties(0)
        y = x.to(f"npu:{torch.npu.current_device()}") * properties.cube_core_num
        torch.npu.synchronize()
        return y + len(torch.npu.get_device_name())

    compiled = torch.compile(fn, backend="eager", fullgraph=True)
    x = torch.ones(2, device="npu")
    assert torch.equal(compiled(x), fn(x))
    with torch.npu.device(1):
        assert compiled(x).device.index == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "npugraph_ex"])
def test_streams_and_events_are_part_of_the_graph(backend: str):
    side = torch.npu.Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        main = torch.npu.current_stream()
        with torch.npu.stream(side):
            side.wait_stream(main)
            y = x * 2
            event = side.record_event()
        main.wait_event(event)
        return y + 1

    x = torch.ones(2, device="npu")
    with torch.no_grad():
        assert torch.compile(fn, backend=backend, fullgraph=True)(x).tolist() == [3, 3]
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_the_default_backend_says_what_to_use_in_its_place():
    text = r'Inductor, .* makes no code for npu: use torch.compile\(..., backend="npugraph_ex"\)'
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=text):
        torch.compile(lambda x: x + 1)(torch.ones(2, device="npu"))
    with pytest.raises(RuntimeError, match=text):
        torch.npu.Scheduling(None)
    assert not hasattr(torch.npu.Scheduling, "__wrapped__")


def test_importing_dynamo_first_or_last_is_the_same():
    import subprocess
    import sys

    use = "import torch; f = torch.compile(torch.npu.device_count, backend='eager', fullgraph=True); assert f() == 2"
    for first in ("import torch, torch._dynamo, torch_npu", "import torch, torch_npu, torch._dynamo"):
        subprocess.run([sys.executable, "-c", f"{first}\n{use}"], check=True)


def test_explain_counts_runs_inside_of_captured_graphs():
    x = torch.ones(4, device="npu")
    compiled = torch.compile(lambda x: x * 2 + 1, backend="npugraph_ex", options={"force_eager": True})
    graph, y = captured(lambda: compiled(x))
    for _ in range(3):
        graph.replay()
    assert y.tolist() == [3] * 4
    artifact = npugraph.artifacts()[-1]
    assert "; captured 0 times on its own and 1 time as part of a torch.npu.graph, run 4 times, " in artifact.explain()
    assert artifact.counters["captures_in_graphs"] == 1 and artifact.counters["eager_runs"] == 4
    assert "4 runs" in repr(artifact)


def test_explain_names_the_pieces_of_a_graph_inside_of_captured_graphs():
    with torch.library._scoped_library("npu_compiled_test", "DEF") as library:
        library.define("apart(Tensor x) -> Tensor")
        library.impl("apart", lambda x: x + 1, "PrivateUse1")
        library.impl("apart", torch.empty_like, "Meta")
        x = torch.ones(4, device="npu")
        compiled = torch.compile(
            lambda x: torch.ops.npu_compiled_test.apart(x * 2) * 3, backend="npugraph_ex", fullgraph=True
        )
        with torch.no_grad():
            graph, y = captured(lambda: compiled(x))
        graph.replay()
        assert y.tolist() == [9] * 4
        artifact = npugraph.artifacts()[-1]
        text = artifact.explain()
        assert (
            "; captured 0 times on its own and 1 time as part of a torch.npu.graph, run 2 times, 2 of them in pieces"
            in text
        )
        assert "\nInside of captured graphs (torch.npu.graph) it runs in pieces\n" in text
        assert text.count(f"  {artifact.name}.") == 2 and text.count(": 1 task, run 2 times") == 2
        assert "2 runs" in repr(artifact)
