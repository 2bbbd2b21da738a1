# SPDX-License-Identifier: Apache-2.0
"""Generated matrix products: numbers of rows that fill no vector, factors in either layout, and products with a common
factor as one task."""

from __future__ import annotations

import copy

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def tasks() -> list[str]:
    (artifact,) = npugraph.artifacts()
    return [task.name for task in artifact.tasks]


def check(compiled, module, x) -> None:
    exact = copy.deepcopy(module).double()(x.double())
    for got, eager, want in zip(compiled(x), module(x), exact, strict=True):
        scale = want.abs().max()
        error = (got.double() - want).abs().max() / scale
        assert error <= max(2 * (eager.double() - want).abs().max() / scale, 1e-6 if x.dtype == torch.float32 else 1e-2)


class Projections(torch.nn.Module):
    """Query, key and value of grouped attention. Weights are [n, k], or [k, n] if ``transposed``."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed
        sizes = [(192, 96), (64, 96), (64, 96)]
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(*(size[::-1] if transposed else size)) / 10) for size in sizes
        )
        self.bias = torch.nn.Parameter(torch.randn(64))

    def forward(self, x):
        q, k, v = (x @ (w if self.transposed else w.t()) for w in self.weights)
        return q, torch.relu(k + self.bias), v


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_projections_of_one_input_are_one_task(transposed, dtype):
    module = Projections(transposed).to(dtype)
    compiled = compile_ex(module, options={"generate_code": True}, dynamic=True)
    for rows in [50, 197, 20, 7]:
        check(compiled, module, torch.randn(2, rows, 96, dtype=dtype))
    assert tasks() == ["matmul.mm.mm.mm.add.relu"]


def test_weights_of_one_task_are_live():
    module = Projections(False)
    compiled = compile_ex(module, options={"generate_code": True})
    x = torch.randn(33, 96)
    check(compiled, module, x)
    for weight in module.weights:
        weight.mul_(2)
    module.weights[1] = torch.nn.Parameter(torch.randn(64, 96))
    check(compiled, module, x)


def test_an_input_that_changes_between_products_is_read_twice():
    def step(x, v, w):
        first = x @ w
        x.mul_(2)
        return first, x @ v

    v, w = torch.randn(96, 64), torch.randn(96, 128)
    x = torch.randn(64, 96)
    want = x @ w, (x * 2) @ v
    got = compile_ex(step, options={"generate_code": True})(x, v, w)
    assert tasks().count("matmul.mm") == 2
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


class FeedForward(torch.nn.Module):
    """down(silu(gate(x)) * up(x)), as in Llama."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(size, hidden, bias=False)
        self.up = torch.nn.Linear(size, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, size, bias=False)

    def forward(self, x):
        return (x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x)),)


@pytest.mark.parametrize("sizes", [[1], [50], [50, 197, 20, 7]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_gate_and_what_it_scales_are_one_task(dtype, sizes):
    module = FeedForward(96, 224).to(dtype)
    compiled = compile_ex(module, options={"generate_code": True}, dynamic=len(sizes) > 1)
    for rows in sizes:
        check(compiled, module, torch.randn(1, rows, 96, dtype=dtype))
    assert tasks() == ["matmul.mm.mm.silu.mul", "matmul.mm.add"]


def test_a_gate_is_replaced_where_it_is():
    module = FeedForward(64, 256)
    x = torch.randn(1, 32, 64)
    check(compile_ex(module, options={"generate_code": True}), module, x)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["live_bytes"] == 32 * 256 * 4
