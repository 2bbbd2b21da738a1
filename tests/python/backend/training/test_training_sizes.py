# SPDX-License-Identifier: Apache-2.0
"""Training with inputs whose sizes change: few graphs serve all sizes, and gradients are close to those of float64."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex, compiled_artifacts
from tests.python.backend.training.training_programs import PROGRAMS

# The number of graphs that Dynamo makes of a program. Most programs have two: one for the first length and one for all.
# These have more, because Dynamo guards on remainders of lengths.
GRAPHS = {"windows": 4, "skipped levels": 4}
QUICK = 6  # the number of programs in `make test`


def step(run, model: torch.nn.Module, inputs) -> list[torch.Tensor]:
    """Returns the results of a step, the gradients of the inputs that have some, and the gradients of the
    parameters."""
    inputs = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    model.zero_grad()
    results = run(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    sum((result * torch.linspace(-1, 2, result.numel()).view_as(result)).sum() for result in results).backward()
    return [*results, *(t.grad for t in inputs if t.requires_grad), *(p.grad.clone() for p in model.parameters())]


def assert_near(found: list[torch.Tensor], exact: list[torch.Tensor]) -> None:
    for a, b in zip(found, exact, strict=True):
        largest = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a.double(), b, rtol=0, atol=2e-5 * largest)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (i >= QUICK)) for i, name in enumerate(PROGRAMS)]
)
def test_gradients_of_changing_sizes(name) -> None:
    make, arguments = PROGRAMS[name]
    torch.manual_seed(0)
    model = make()
    exact = copy.deepcopy(model).double()
    compiled = compile_ex(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        for n in (5, 6, 9):
            inputs = arguments(n)
            wide = [t.double().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in inputs]
            assert_near(step(compiled, model, inputs), step(exact, exact, wide))
    graphs = compiled_artifacts()
    assert not any(graph.partitions for graph in graphs)
    assert len(graphs) <= 2 * GRAPHS.get(name, 2)  # forward and backward


def test_gradients_of_parts_without_elements() -> None:
    """The gradient of a split joins the gradients of its parts. Here one of them is computed and empty."""

    def program(x):
        whole, none = x.split([x.shape[0], 0])
        return whole, none - none

    compiled = compile_ex(program, dynamic=True)
    for n in (3, 7, 1):
        x = torch.randn(n, 2)[:, 0].detach().requires_grad_()
        gradients = [torch.randn(n), torch.randn(0)]
        got, want = (torch.autograd.grad(f(x), x, gradients) for f in (compiled, program))
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "combine", [torch.add, torch.mul, lambda a, b: (a.exp() * b).relu(), lambda a, b: (a * b).sum(0) + a]
)
def test_gradients_where_a_guard_fixes_a_computed_size_at_one(combine) -> None:
    """The broadcast says that n // 4 is 1. The backward graph has that size as a part of an input before it has a
    tensor with it."""

    def program(x):
        part = x.narrow(0, x.shape[0] // 2, x.shape[0] // 4) @ x
        return part, combine(part, x)

    compiled = compile_ex(program, dynamic=True)
    for n in (4, 5, 6, 7):
        x = torch.randn(n, n).t()
        gradients = []
        for run in (compiled, program):
            x = x.detach().requires_grad_()
            results = run(x)
            sum((result * torch.linspace(-1, 2, result.numel()).view_as(result)).sum() for result in results).backward()
            gradients.append(x.grad)
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-4)
    assert len(npugraph.artifacts()) == 2
