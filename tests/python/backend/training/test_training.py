# SPDX-License-Identifier: Apache-2.0
"""Forward and backward graphs: gradients and whole training loops equal eager."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from npugraph import artifacts
from tests.python.backend.checks import assert_same, compile_ex


def small_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16),
        torch.nn.Dropout(0.5),
        torch.nn.GELU(),
        torch.nn.LayerNorm(16),
        torch.nn.Linear(16, 4),
    )


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_inputs_and_parameters(dynamic) -> None:
    def fn(w, x, y):
        return torch.softmax(x @ w, -1).sin() * y, (w * 2).sum()

    compiled = compile_ex(fn, dynamic=dynamic)
    for n in (3, 5, 6):
        own = [torch.randn(4, 4, requires_grad=True), torch.randn(n, 4, requires_grad=True), torch.randn(n, 4)]
        given = [t.detach().clone().requires_grad_(t.requires_grad) for t in own]
        for arguments, run in ((own, compiled), (given, fn)):
            a, b = run(*arguments)
            (a.sum() + b).backward()
        assert_same([t.grad for t in own], [t.grad for t in given], exact=False)
        assert own[2].grad is None


COUNT = {
    "add_": lambda number: number.add_(1),
    "iadd": lambda number: operator.iadd(number, 1),
    "out": lambda number: torch.add(number, 1, out=number),
}


@pytest.mark.parametrize("count", COUNT.values(), ids=COUNT.keys())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64])
def test_a_number_that_counts_steps(dtype: torch.dtype, count: Callable[[torch.Tensor], Any]) -> None:
    """Dynamo loses the write of a float64 number; such a graph runs operator by operator."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.register_buffer("steps", torch.zeros((), dtype=dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count(self.steps)
            return self.linear(x).sum()

    model, counted = Counting(), counters["npugraph_ex"]["lost_writes"]
    compiled = compile_ex(model)
    for _ in range(3):
        compiled(torch.ones(3)).backward()
    assert model.steps == 3
    assert_same(model.linear.bias.grad, torch.full((2,), 3.0))
    assert counters["npugraph_ex"]["lost_writes"] - counted == (3 if dtype == torch.float64 else 0)


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.AdamW])
def test_a_loop_with_dropout_equals_eager(optimiser) -> None:
    own, eager = small_model(), small_model()
    compiled = compile_ex(own)
    runs = [(run, optimiser(model.parameters(), lr=0.1)) for run, model in ((compiled, own), (eager, eager))]
    for step in range(5):
        x = torch.randn(4, 8)
        losses = []
        for run, steps in runs:
            torch.manual_seed(step)
            steps.zero_grad()
            losses.append(torch.nn.functional.cross_entropy(run(x), torch.arange(4)))
            losses[-1].backward()
            steps.step()
        assert_same(*losses, exact=False)
    assert_same(gradients(own), gradients(eager), exact=False)
    assert_same(own.state_dict(), eager.state_dict(), exact=False)
    assert [a.counters["compiles"] for a in artifacts()] == [1, 1]
    assert [a.counters["captures"] for a in artifacts()] == [1, 1]


def test_two_forwards_before_a_backward() -> None:
    model = small_model().eval()
    compiled = compile_ex(model)
    own = [torch.randn(4, 8, requires_grad=True) for _ in range(3)]
    given = [t.detach().clone().requires_grad_() for t in own]
    for run, inputs in ((compiled, own), (model, given)):
        results = [run(x) for x in inputs]
        for i, result in reversed(list(enumerate(results))):
            (result**2).sum().mul(i + 1).backward()
    assert_same([t.grad for t in own], [t.grad for t in given], exact=False)


def test_a_backward_twice() -> None:
    compiled = compile_ex(lambda x: (x.sin() * x.exp()).sum())
    x = torch.randn(3, requires_grad=True)
    loss = compiled(x)
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    assert torch.equal(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_second_derivatives_are_refused() -> None:
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(compile_ex(lambda x: (x**3).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


def test_a_parameter_written_between_forward_and_backward_is_noticed() -> None:
    model = small_model()
    loss = compile_ex(model)(torch.randn(4, 8, requires_grad=True)).sum()
    with torch.no_grad():
        model[0].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_updated_by_hand() -> None:
    own, eager = small_model().eval(), small_model().eval()
    compiled = compile_ex(own)
    x = torch.randn(4, 8)
    for _ in range(3):
        for run, model in ((compiled, own), (eager, eager)):
            model.zero_grad()
            run(x).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(0.1 * parameter.grad)
    assert_same(own.state_dict(), eager.state_dict(), exact=False)


def test_inputs_written_in_a_training_graph() -> None:
    def fn(x, w):
        x.mul_(2)
        return (x * w).abs()

    compiled = compile_ex(fn, dynamic=True)
    for n in (3, 5):
        x, w = torch.randn(n), torch.randn(n, requires_grad=True)
        y, v = x.clone(), w.detach().clone().requires_grad_()
        compiled(x, w).sum().backward()
        fn(y, v).sum().backward()
        assert_same((x, w.grad), (y, v.grad))


def test_grad_mode_changes_between_calls() -> None:
    model = small_model().eval()
    compiled = compile_ex(model)
    x = torch.randn(4, 8)
    want = model(x)
    for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode, torch.no_grad):
        with mode():
            got = compiled(x)
        assert got.requires_grad == (mode is torch.enable_grad)
        assert_same(got, want, exact=False)


@pytest.mark.parametrize(
    ("norm", "size"),
    [(torch.nn.LayerNorm(8), (4, 8)), (torch.nn.GroupNorm(2, 8), (4, 8, 3)), (torch.nn.BatchNorm1d(8), (4, 8, 3))],
)
def test_norms_train_under_autocast_as_in_eager(norm, size) -> None:
    own = torch.nn.Sequential(torch.nn.Conv1d(8, 8, 1) if len(size) == 3 else torch.nn.Linear(8, 8), norm)
    eager = copy.deepcopy(own)
    compiled = compile_ex(own)
    x = torch.randn(size)
    for run, model in ((compiled, own), (eager, eager)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = run(x)
        (result.float() ** 2).sum().backward()
        model.result = result
    assert_same(own.result, eager.result, exact=False)
    torch.testing.assert_close(gradients(own), gradients(eager), rtol=2e-2, atol=2e-2)


def test_autograd_functions() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.abs()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * x * 2

    def fn(x):
        return (Twice.apply(x) + 1).sum()

    own = torch.randn(3, requires_grad=True)
    given = own.detach().clone().requires_grad_()
    compile_ex(fn)(own).backward()
    fn(given).backward()
    assert_same(own.grad, given.grad)
