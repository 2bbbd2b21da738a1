# SPDX-License-Identifier: Apache-2.0
"""Functions that read numbers out of tensors, which no graph of GE returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.python.ge.converted import random_tensor as t
from tests.python.ge.cut_runs import Run

pytestmark = pytest.mark.usefixtures("order_is_missing")


@pytest.fixture(autouse=True)
def capture() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        yield


def next_step(step: torch.Tensor) -> int:
    now = step.item()
    step.add_(1)
    return now


def sorted_(y: torch.Tensor) -> torch.Tensor:
    """Runs eagerly between two graphs of GE, of which the first writes what ``next_step`` writes."""
    return torch.sort(torch.relu(y))[0]


WRITTEN: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "an output": lambda step, y: next_step(step),
    "a number of it": lambda step, y: (next_step(step) * 2 + 1, sorted_(y)),
    "a factor": lambda step, y: sorted_(y) * next_step(step) + 1,
    "a size of a new tensor": lambda step, y: sorted_(y) * torch.ones(next_step(step), 1) + 1,
    "the end of a view": lambda step, y: torch.narrow(sorted_(y), 0, 0, next_step(step)) * 2,
    "a number of an eager operator": lambda step, y: torch.roll(sorted_(y), next_step(step)),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_numbers_are_read_before_their_tensor_is_written(case: str, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(WRITTEN[case], caplog)
    for step in (1, 2):
        run.check(torch.tensor(step), t(4))


def test_the_tensor_of_a_number_is_computed_once(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    @torch.library.custom_op("ge_missing_numbers::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    counted.register_fake(torch.empty_like)

    def function(x: torch.Tensor) -> torch.Tensor:
        total = torch.relu(counted(x))
        return total * total.sum().item()

    Run(function, caplog).check(t(4, dtype=torch.int64))
    assert len(calls) == 2  # one is of eager mode


def test_outputs_that_no_graph_of_ge_returns_are_named(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(lambda x: x.sum().item(), caplog)
    run.check(torch.arange(4))
    (warning,) = run.warnings
    first, output, summary = warning.splitlines()
    assert re.fullmatch(r"1 input or output of graph 'graph_\d+' cannot be converted to Ascend IR:", first)
    assert output == "  an output: no input has the size u0"
    assert summary.startswith("The host reads and makes them. Graphs of GE for the rest: graph_")


def test_they_are_named_beside_operators(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(lambda x: (x.sum().item(), torch.sort(x)[0]), caplog)
    run.check(torch.arange(4))
    (warning,) = run.warnings
    first, operator, output, _ = warning.splitlines()
    assert first.startswith("1 operator and 1 input or output of graph ")
    assert operator.startswith("  torch.ops.aten.sort.default ge_converter is not implemented! At ")
    assert output.startswith("  an output: ")
    assert run.num_eager_parts == 1
