# SPDX-License-Identifier: Apache-2.0
"""The ladder on npu tensors: built-in fusions, caches, and a NaN."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from npugraph.ladder.compare import Tolerance
from npugraph.ladder.stepping import Stepper

pytestmark = pytest.mark.feature("9.12")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def step(model, *inputs, runs: int = 2):
    """Returns the findings, and the share of the written values that was compared."""
    found = []
    with torch.no_grad(), Stepper(Tolerance(), found.append) as stepper:
        compiled = torch.compile(model, backend="npugraph_ex")
        for _ in range(runs):
            compiled(*inputs)
    assert stepper.runs == runs
    return found, stepper.compared / stepper.written


def add_norm_and_write(x, residual, gamma, cache, at):
    y, _, x = torch_npu.npu_add_rms_norm(x, residual, gamma)
    cache.index_copy_(0, at, x)
    return torch.nn.functional.silu(y) * cache.sum(0), torch.zeros(3, device=x.device) + y[:, :3]


def inputs(dtype=torch.float32):
    npu = {"device": "npu", "dtype": dtype}
    at = torch.tensor([1, 3], device="npu")
    return torch.randn(2, 8, **npu), torch.randn(2, 8, **npu), torch.ones(8, **npu), torch.zeros(4, 8, **npu), at


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tasks_that_are_right(dtype) -> None:
    found, share = step(add_norm_and_write, *inputs(dtype))
    assert not found
    assert share > 0.7


def test_the_first_nan() -> None:
    def model(x):
        return (x.sum(0, keepdim=True) - 1000).sqrt().expand(2, 8) @ x.T

    (first, _) = step(model, inputs()[0])[0]
    assert first.problem.endswith("is the first value with a NaN; no operand of the task has one")
    assert "sqrt" in first.origin
    assert first.source.startswith(f"{__file__}:{model.__code__.co_firstlineno + 1} ")
    assert first.tensors()["results"].popitem()[1].device.type == "cpu"


def test_a_nan_that_the_caller_gave() -> None:
    (first, second) = step(lambda x: (x.relu() + 1) @ x.T, torch.full((2, 8), float("nan"), device="npu"))[0]
    assert first.problem == "the input l_x_ of the graph holds a NaN already"
    assert (first.run, second.run) == (1, 2)
