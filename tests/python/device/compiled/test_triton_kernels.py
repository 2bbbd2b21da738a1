# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton in graphs, under Triton's interpreter. Triton takes 1 GB, so `make long` installs it apart from
.venv and runs this file (tests/python/tooling/test_triton.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401
from torch._dynamo.exc import Unsupported
from torch.library import triton_op, wrap_triton

import npugraph
import torchair
from tests.python.device.triton_here import require_triton

triton = require_triton()

from npugraph.fx.triton_kernels import written_parameters  # noqa: E402
from tests.python.device import triton_samples as samples  # noqa: E402

pytestmark = pytest.mark.feature("7.10")
DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
MODES = pytest.mark.parametrize("mode", ["npugraph_ex", "reduce-overhead", "max-autotune"])
BLOCK = 64


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def grid_of(n: int) -> Callable[[dict[str, Any]], tuple[int]]:
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


def with_a_tuple(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    samples.scaled_add[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), 2.0, BLOCK)
    return out + 1


def with_a_function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    samples.scaled_add[grid](x, y, out=out, n=x.numel(), scale=2.0, BLOCK=BLOCK, num_warps=4)
    return out + 1


def in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Writes an intermediate and an input, which the kernel also reads."""
    z = x * 2
    samples.scaled_add[grid_of(x.numel())](z, y, z, x.numel(), 2.0, BLOCK=BLOCK)
    samples.scaled_add[grid_of(x.numel())](x, z, x, x.numel(), 0.5, BLOCK=BLOCK)
    return z + 1


@triton_op("triton_tests::sum_of_scaled", mutates_args=())
def sum_of_scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(samples.scaled_add)[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), 2.0, BLOCK=BLOCK)
    return out


@triton_op("triton_tests::add_scaled_", mutates_args={"x"})
def add_scaled_(x: torch.Tensor, y: torch.Tensor) -> None:
    wrap_triton(samples.scaled_add)[grid_of(x.numel())](x, y, x, x.numel(), 2.0, BLOCK=BLOCK)


def by_operators(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = sum_of_scaled(x, y) * 2
    add_scaled_(z, y)
    add_scaled_(x, z)
    return z + 1


CALLS = (with_a_tuple, with_a_function, in_place, by_operators)


def compiled(function: Callable[..., Any], mode: str, **how: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    if mode == "npugraph_ex":
        return torch.compile(function, backend="npugraph_ex", fullgraph=True, **how)
    config = torchair.CompilerConfig()
    config.mode = mode
    return torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, **how)


def check(function: Callable[..., Any], fast: Callable[..., Any], device: str, n: int = 1000) -> None:
    """Checks results and written arguments of three calls."""
    for _ in range(3):
        x, y = (torch.randn(n, device=device) for _ in range(2))
        same = x.clone()
        got, want = fast(x, y), function(same, y)
        assert torch.equal(got, want) and torch.equal(x, same)


@pytest.mark.filterwarnings("ignore:option 'mode'")
@pytest.mark.parametrize("function", CALLS)
@MODES
@DEVICES
def test_a_graph_gives_what_eager_gives(device: str, mode: str, function: Callable[..., Any]) -> None:
    check(function, compiled(function, mode), device)


@pytest.mark.parametrize("function", CALLS)
@DEVICES
def test_kernels_are_tasks_that_write_in_place(device: str, function: Callable[..., Any]) -> None:
    check(function, compiled(function, "npugraph_ex"), device)
    artifact = npugraph.artifacts()[-1]
    assert artifact.python_tasks and all("scaled_add" in task.name for task in artifact.python_tasks)
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert artifact.counters["captures"] == 1


@MODES
@pytest.mark.filterwarnings("ignore:option 'mode'")
def test_one_graph_serves_all_sizes(mode: str) -> None:
    fast = compiled(with_a_function, mode, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (1000, 37, 640):
            check(with_a_function, fast, "npu", n)


@DEVICES
def test_kernels_that_call_kernels(device: str) -> None:
    def rows(x: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sums, largest = torch.zeros_like(x[:, 0]), torch.empty_like(x[:, 0])
        samples.sums_of_rows[(x.shape[0],)](x, order, sums, largest, *x.shape, HOW="largest", BLOCK=16)
        return sums, largest

    x, order = torch.randn(5, 40, device=device), torch.randperm(5).to(device)
    sums, largest = compiled(rows, "npugraph_ex")(x, order)
    torch.testing.assert_close(sums, x.sum(1))
    assert torch.equal(largest, x.amax(1))


@pytest.mark.parametrize("function", [with_a_tuple, by_operators])
def test_captured_streams_have_kernels_of_compiled_functions_only(function: Callable[..., Any]) -> None:
    x, y = (torch.randn(1000).npu() for _ in range(2))
    fast = compiled(function, "npugraph_ex")
    fast(x, y)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = fast(x, y)
    x.fill_(3.0)
    same = x.clone()
    graph.replay()
    assert torch.equal(out, function(same, y)) and torch.equal(x, same)
    refused = pytest.raises(RuntimeError, match="the kernel scaled_add in Python, so a replay would not run it")
    with refused, torch.npu.graph(torch.npu.NPUGraph()):
        with_a_tuple(x, y)


@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        ("scaled_add", {"out"}),
        ("sums_of_rows", {"sums", "largest"}),
        ("through_a_loop", {"a", "b"}),
        ("by_a_block", {"target"}),
    ],
)
def test_what_a_kernel_writes_is_read_from_its_source(kernel: str, written: set[str]) -> None:
    numbers = {"n", "scale", "rows", "columns", "BLOCK", "HOW"}  # they point nowhere
    assert written_parameters(getattr(samples, kernel).fn) - numbers == written


def test_a_constant_that_cannot_be_hashed_is_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        samples.scaled_add[(1,)](x, x, x, x.numel(), [2.0], BLOCK=BLOCK)
        return x

    with pytest.raises(Unsupported, match=r"kernel scaled_add .* pass tuples for lists"):
        compiled(function, "npugraph_ex")(torch.randn(4))
