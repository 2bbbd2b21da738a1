# SPDX-License-Identifier: Apache-2.0
"""Products that dequantise their weights row by row, as torchao's layers with quantised weights write them: against
eager and fp64. No task writes the dequantised weights."""

from __future__ import annotations

import re

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex

GENERATE = {"generate_code": True}
OUTPUTS, INPUTS, GROUP = 96, 192, 32


@pytest.fixture(autouse=True)
def no_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Float8(torch.nn.Module):
    """As Float8WeightOnlyConfig: a scale for each output."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.register_buffer("codes", torch.randn(OUTPUTS, INPUTS).to(torch.float8_e4m3fn))
        self.register_buffer("scales", torch.rand(OUTPUTS, 1))

    def weights(self) -> torch.Tensor:
        return (self.codes.t().to(torch.float32) * self.scales.t()).to(self.dtype)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weights()) + bias


class Groups(torch.nn.Module):
    """As IntxWeightOnlyConfig: a scale and a zero point for each group of a row."""

    def __init__(self, dtype: torch.dtype, group: int = GROUP) -> None:
        super().__init__()
        self.dtype, self.groups = dtype, (OUTPUTS, INPUTS // group, group)
        self.register_buffer("codes", torch.randint(-8, 8, (OUTPUTS, INPUTS), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(OUTPUTS, INPUTS // group).to(dtype))
        self.register_buffer("zeros", torch.randint(-8, 8, (OUTPUTS, INPUTS // group), dtype=torch.int8))

    def weights(self) -> torch.Tensor:
        weights = self.codes.view(self.groups).to(self.dtype) - self.zeros[..., None].to(self.dtype)
        return (weights * self.scales[..., None]).view(OUTPUTS, INPUTS).t()

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.addmm(bias, x, self.weights())


FORMS = {"float8": Float8, "groups": Groups, "rows": lambda dtype: Groups(dtype, INPUTS)}


def assert_as_accurate(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> None:
    """The rule of docs/numerics.md."""
    error, eagers = ((y.double() - exact).abs().max() / exact.abs().max() for y in (got, eager))
    assert error <= max(1e-5, 4 * eagers)


def assert_reads_codes(dtype: torch.dtype) -> None:
    artifact = npugraph.artifacts()[-1]
    assert [task.kind for task in artifact.tasks if "mm" in task.name] == ["matmul"]
    # Inputs have no such size: codes are bytes.
    in_use = [int(size) for size in re.findall(r"bytes\((\d+)\) live", artifact.program())]
    assert max(in_use) < OUTPUTS * INPUTS * dtype.itemsize


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("rows", [1, 2, 9, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_read_as_codes(form: str, rows: int, dtype: torch.dtype) -> None:
    layer = FORMS[form](dtype)
    x, bias = torch.randn(rows, INPUTS).to(dtype), torch.randn(OUTPUTS).to(dtype)
    got, eager = compile_ex(layer, options=GENERATE)(x, bias), layer(x, bias)
    assert got.dtype == eager.dtype
    assert got.stride() == eager.stride()
    assert_as_accurate(got, eager, x.double() @ layer.weights().double() + bias.double())
    assert_reads_codes(dtype)


@pytest.mark.parametrize("form", list(FORMS))
def test_any_number_of_rows_in_one_program(form: str) -> None:
    layer = FORMS[form](torch.float32)
    compiled = compile_ex(layer, options=GENERATE, dynamic=True)
    bias = torch.randn(OUTPUTS)
    for rows in (5, 40, 2, 130):
        x = torch.randn(rows, INPUTS)
        assert_as_accurate(compiled(x, bias), layer(x, bias), x.double() @ layer.weights().double() + bias.double())
    assert_reads_codes(torch.float32)


def test_weights_that_the_caller_sees_are_written() -> None:
    layer = Groups(torch.float32)

    def fn(x):
        weights = layer.weights()
        return torch.mm(x, weights), weights

    x = torch.randn(4, INPUTS)
    (y, weights), (eager, eagers) = compile_ex(fn, options=GENERATE)(x), fn(x)
    assert torch.equal(weights, eagers)
    assert_as_accurate(y, eager, x.double() @ eagers.double())


def test_results_do_not_depend_on_threads() -> None:
    layer = Groups(torch.float32)
    x, bias = torch.randn(40, INPUTS), torch.randn(OUTPUTS)
    compiled = compile_ex(layer, options=GENERATE)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(compiled(x, bias))
        assert torch.equal(*results)
    finally:
        torch.set_num_threads(threads)
