# SPDX-License-Identifier: Apache-2.0
"""Sizes and scalars that depend on the contents of tensors: one compile serves all, and nothing runs in Python."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch._dynamo.config as dynamo_config

from npugraph import NpugraphWarning
from tests.python.backend.checks import assert_same, check_captured


@pytest.fixture(autouse=True)
def capture_everything():
    with torch.no_grad(), dynamo_config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def tensors(*values):
    return [lambda value=value: (torch.tensor(value),) for value in values]


@pytest.mark.feature("3.12")
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.nonzero() + 1,
        lambda x: x.masked_select(x > 0).sin(),
        lambda x: x[x > 0] * 2,
        lambda x: torch.unique(x) * 2,
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: x.index_put_((x.nonzero().squeeze(1),), torch.tensor(5.0)).sum(),
        lambda x: torch.cat([x[x > 0], x, x[x > 1]]) + 1,
    ],
)
def test_sizes_from_contents(fn) -> None:
    artifacts = check_captured(fn, *tensors([0.0, 1, 2, 0], [0.0, 1, 0, 0], [0.0, 0, 0, 0], [4.0, 3, 2, 1]))
    assert len(artifacts) == 1


def test_sizes_from_contents_of_a_matrix() -> None:
    check_captured(lambda x: x.nonzero(), *tensors([[0, 1, 2, 0], [3, 4, 0, 0]], [[0, 1, 0, 0], [1, 1, 1, 1]]))


def test_numbers_of_repeats_may_change_without_another_compile() -> None:
    calls = [lambda n=n: (torch.randn(2), torch.tensor(n)) for n in ([2, 3], [0, 1], [0, 0])]
    assert len(check_captured(lambda x, n: torch.repeat_interleave(x, n) + 1, *calls)) == 1


def test_items_as_sizes() -> None:
    def fn(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x.narrow(0, 0, k) * 2, x.new_ones(k, 2), torch.arange(k) * 2, k

    calls = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in (3, 7, 8)]
    assert len(check_captured(fn, *calls)) == 1


@pytest.mark.feature("3.12")
def test_items_as_numbers() -> None:
    numbers = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in (3.5, 7.5)]
    check_captured(lambda x, n: x * n.item() + n.item() * 2, *numbers)
    torch._dynamo.reset()
    truths = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in (True, False)]
    check_captured(lambda x, n: x * n.item(), *truths)


def test_lists_of_items() -> None:
    calls = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in ([3, 5], [2, 6])]
    assert len(check_captured(lambda x, n: torch.split(x, n.tolist()), *calls)) == 1


def test_a_check_that_fails_says_so() -> None:
    def fn(x, n):
        k = n.item()
        torch._check(k >= 2)
        return x.new_ones(k)

    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    x = torch.randn(3)
    assert compiled(x, torch.tensor(5)).shape == (5,)
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor(1))
    assert compiled(x, torch.tensor(2)).shape == (2,)


def rows(n, *counts):
    """Returns for each count a function that makes arguments: ``n`` rows, and a mask that selects ``count`` of them."""
    return [lambda count=count: (torch.randn(n, 4), torch.arange(n) % 7 < count) for count in counts]


PINNED = {
    "to a constant": lambda x, m: x[m] + x[:3],
    "by a view": lambda x, m: (x[m].view(2, 6) * 2).sum(0),
    "by a size of an input": lambda x, m: x[m].exp() + x[: x.shape[0] // 2],
    "by each other": lambda x, m: x[m] * x[m.logical_not()] + x[m].sum(),
    "by a sum": lambda x, m: torch.cat([x[m], x[:2]]) - x[:5],
    "before a sum of sizes": lambda x, m: x[m] + torch.cat([x[(x[:, 0] > 9) & m], x[m.logical_not()]]),
    "of places": lambda x, m: m.nonzero() + torch.arange(3)[:, None],
}


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", PINNED.values(), ids=PINNED.keys())
def test_sizes_that_a_later_operation_pins(fn, dynamic) -> None:
    check_captured(fn, *rows(6, 3, 3), *rows(6, 3), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ["to a constant", "by a view", "by a size of an input", "of places"])
def test_sizes_that_are_not_what_they_were_pinned_to(name, dynamic) -> None:
    """The call fails, as in eager; the next one works."""
    fn = PINNED[name]
    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, dynamic=dynamic)
    (fitting,), (other,) = rows(6, 3), rows(6, 2)
    for _ in range(2):
        arguments = fitting()
        assert_same(compiled(*arguments), fn(*arguments), exact=False)
        with pytest.raises(RuntimeError):
            fn(*other())
        with pytest.raises(RuntimeError, match=r"returned sizes|Runtime assertion failed"):
            compiled(*other())


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_pinned_sizes(dynamic) -> None:
    fn = PINNED["to a constant"]
    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, dynamic=dynamic)
    for make in rows(6, 3) + rows(7, 3):
        gradients = []
        x, mask = make()
        for run in (fn, compiled):
            x = x.detach().requires_grad_()
            with torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("error", NpugraphWarning)
                run(x, mask).square().sum().backward()
            gradients.append(x.grad)
        assert torch.equal(*gradients)


PARTS = {
    "rows": lambda x, k: x.narrow(0, k, k).sin(),
    "columns": lambda x, k: (x.t().narrow(1, k, k) * 2).exp(),
    "of a new tensor": lambda x, k: (x + x.new_ones(k, 1, 4).sum(0)).narrow(0, k, k) * 3,
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_gradients_of_parts_between_items(part) -> None:
    """The backward graph has the size of the part in symbols of its own."""

    def fn(x, n):
        k = n.item()
        torch._check(2 * k <= x.shape[0])
        return part(x, k)

    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, dynamic=True)
    for rows, k in ((8, 3), (9, 4), (6, 3), (6, 1)):
        gradients = []
        x = torch.randn(rows, 4)
        for run in (fn, compiled):
            x = x.detach().requires_grad_()
            with torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("error", NpugraphWarning)
                run(x, torch.tensor(k)).square().sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)


def test_items_that_a_later_operation_pins() -> None:
    def fn(x, n):
        k = n.item()
        torch._check(k == 3)
        return x[:k] + x[3:]

    check_captured(fn, lambda: (torch.randn(6, 4), torch.tensor(3)))
    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    x = torch.randn(6, 4)
    assert torch.equal(compiled(x, torch.tensor(3)), x[:3] + x[3:])
    with pytest.raises(RuntimeError, match="3"):
        compiled(x, torch.tensor(2))
    assert torch.equal(compiled(x, torch.tensor(3)), x[:3] + x[3:])


# Reductions without a value for an empty row: it has no extreme, median or mode.
WITHOUT_IDENTITY = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: x.amax(),
    "amin of rows": lambda x: x.amin(0, keepdim=True),
    "max of rows": lambda x: x.max(0),
    "indices of the least": lambda x: x.min(0).indices,
    "argmax": lambda x: x.argmax(),
    "argmin of rows": lambda x: x.argmin(0, keepdim=True),
    "aminmax": lambda x: torch.aminmax(x),
    "median of rows": lambda x: x.median(0),
    "mode of rows": lambda x: x.mode(0),
    "largest norm": lambda x: torch.linalg.vector_norm(x, float("inf")),
    "through other work": lambda x: (x * 2).max() + 1,
    "of integers": lambda x: x.int().min(),
}
# Torch does not check the operand sizes of these while it compiles, so they fail at the call, with eager's text.
LEFT_TO_RUNS = {"max", "min", "through other work", "of integers"}
# Ways to get rows from a tensor and a number, each with a number that gives some rows and one that gives none.
EMPTIED = {
    "contents": (lambda x, n: x[x[:, 0] < n], 3, 0),
    "sums of sizes": (lambda x, n: x[n:], 2, 5),
    "known": (lambda x, n: x.new_ones(0 if n == 0 else 3, 4), 3, 0),
}


@pytest.mark.each_value
@pytest.mark.parametrize("emptied", EMPTIED)
@pytest.mark.parametrize("name", WITHOUT_IDENTITY)
def test_reductions_of_nothing(name, emptied) -> None:
    """They raise as in eager, and the next call works. This holds no matter whether the sizes are known at the compile,
    at the call, or only in the run."""
    rows_of, some, none = EMPTIED[emptied]

    def fn(x, n):
        return WITHOUT_IDENTITY[name](rows_of(x, n))

    compiled = torch.compile(fn, backend="npugraph_ex", dynamic=True)
    x = torch.arange(20.0).view(5, 4)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        fn(x, none)
    for _ in range(2):
        assert_same(compiled(x, some), fn(x, some))
        with pytest.raises((RuntimeError, IndexError)) as own:
            compiled(x, none)
        assert name not in LEFT_TO_RUNS or str(eager.value).splitlines()[0] in str(own.value)


def test_reductions_of_nothing_that_have_an_identity() -> None:
    calls = tensors([[1.0, 2], [-1, 3]], [[-1.0, 2], [-3, 4]])
    check_captured(lambda x: (x[x[:, 0] > 0].norm(), x[x[:, 0] > 0].amax(1)), *calls)
