# SPDX-License-Identifier: Apache-2.0
"""Results that share memory with inputs or with each other, and results that the caller keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from npugraph.backend import npugraph_ex
from tests.python.backend.checks import assert_same, check, compile_ex, shared_memory


@pytest.fixture(autouse=True, params=[False, True], ids=["no_grad", "grad"])
def grad_mode(request):
    with torch.set_grad_enabled(request.param):
        yield


def written_view(x):
    v = x[1:]
    v.mul_(2)
    w = v.view(-1)
    w[0] = 5
    return v, w, x.sum()


def written_intermediate(x):
    y = x * 2
    y.view(-1)[1:].add_(1)
    return y, y.t()


def written_halves(x):
    a, b = x.chunk(2)
    a.add_(b)
    return a, b, x * 2


def written_bits(x):
    x.view(torch.int32).zero_()
    return x + 1


def written_window(x):
    x.as_strided((2,), (2,), 1).mul_(3)
    return x * 2


def with_intermediate(x):
    y = x.sin()
    return y, y[1:], y.t(), y.view(-1)


def same_twice(x):
    y = x * 2
    return y, y, x


CASES = {
    "views of an input": lambda x: (x, x.view(-1), x[1:], x.t(), x + 1),
    "views of a result": with_intermediate,
    "the same result twice": same_twice,
    "a written view": written_view,
    "a written intermediate": written_intermediate,
    "written halves": written_halves,
    "written bits": written_bits,
    "written window": written_window,
    "detached": lambda x: (x.detach(), x.detach().view(-1), x * 2),
    "windows": lambda x: (x.as_strided((2, 2), (1, 2), 1) + 1, x.as_strided((2, 2), (2, 1))),
    "bits": lambda x: (x.view(torch.int32), x.view(torch.int32) + 1, x.view(torch.uint8)[1:]),
    "splits": lambda x: (torch.split(x, 2)[0], x.unbind(0), x + 1),
}


@pytest.mark.parametrize("fn", CASES.values(), ids=CASES.keys())
def test_memory_is_shared_as_in_eager(fn) -> None:
    check(fn, lambda: (torch.randn(4, 2),), aliases=True)


def test_parts_of_complex_numbers() -> None:
    check(
        lambda x: (x.real, x.imag + 1, torch.view_as_real(x)),
        lambda: (torch.randn(3, dtype=torch.complex64),),
        aliases=True,
    )


def test_inputs_at_any_offset() -> None:
    calls = [lambda k=k: (torch.randn(12)[k : k + 4],) for k in (0, 1, 3, 7)]
    check(lambda x: (x * 2, x[1:]), *calls, aliases=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_a_written_part_of_an_input_with_an_offset(dynamic: bool) -> None:
    def fn(x):
        left, right = x.chunk(2, 1)
        before = right + right
        return right.zero_(), left, before

    calls = [lambda rows=rows: (torch.randn(rows + 1, 3)[1:],) for rows in (5, 3, 1)]
    check(fn, *(calls if dynamic else calls[:1]), dynamic=dynamic, aliases=True)


WRITES: dict[str, Callable[..., Any]] = {
    "all of it": lambda x: x.add_(1),
    "a part": lambda x: x[1:].add_(1),
    "turned": lambda x: x.t().mul_(2),
    "copied": lambda x: x.copy_(x.flip(0)),
    "detached": lambda x: x.detach().mul_(2),
}


def parts_named_by_sizes(x):
    rows, columns = x.shape
    return (
        x[: rows - 2],
        x.narrow(1, columns // 2, 1),
        x.reshape(-1)[: rows + columns],
        x.reshape(columns, rows),
        x.unfold(0, rows - 1, 1),
        x.t()[1:].t()[: rows - 1],
        x.expand(rows, rows, columns),
        x[0],
        x[: rows - 1].sum(),
    )


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_parts_of_written_inputs_at_any_offset(name: str, dynamic: bool) -> None:
    """AOTAutograd takes places from results where sizes are symbolic."""

    def fn(x):
        WRITES[name](x)
        return parts_named_by_sizes(x), x * 2

    compare_at_offsets(fn, compile_ex(fn, dynamic=dynamic))


def compare_at_offsets(fn: Callable[..., Any], compiled: Callable[..., Any]) -> None:
    for first, rows in ((0, 5), (1, 5), (1, 4), (3, 6)):
        around = torch.randn(10, 8, requires_grad=torch.is_grad_enabled())
        for window in ((slice(first, first + rows),), (slice(first, first + rows), slice(1, None, 2))):
            given, wanted = around.clone(), around.clone()
            part, expected_part = given[window], wanted[window]
            results, expected = [compiled(part), part, given], [fn(expected_part), expected_part, wanted]
            assert_same(results, expected)
            assert shared_memory(results) == shared_memory(expected)


@pytest.mark.parametrize(
    "turn",
    [torch.Tensor.t_, lambda x: x.transpose_(0, 1)[1:], lambda x: x.as_strided_((2, 3), (1, 8))],
    ids=["t_", "transpose_", "as_strided_"],
)
def test_inputs_that_are_written_and_turned_at_any_offset(turn: Callable[..., Any]) -> None:
    def fn(x):
        y = turn(x.mul_(2))
        return y, y[: y.shape[0] // 2], x + 1

    compare_at_offsets(fn, compile_ex(fn, dynamic=False))


OTHER_TYPES = {
    "same size": lambda x: x.view(torch.int32)[: x.shape[0] - 2],
    "smaller": lambda x: x.view(torch.int16)[1 : x.shape[0] - 1],
    "larger": lambda x: x.view(torch.float64)[: x.shape[0] // 2],
    "complex": lambda x: torch.view_as_complex(x.view(x.shape[0], -1, 2))[1:],
    "written": lambda x: x.mul_(2).view(torch.int16)[: x.shape[0] - 2],
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_views_of_inputs_as_other_types(name: str) -> None:
    """AOTAutograd counts elements of the other type in the input."""
    compare_other_types(name, "npugraph_ex")


def compare_other_types(name: str, backend: Any) -> None:
    def fn(x, weight):
        return OTHER_TYPES[name](x), weight * 2

    compiled = torch.compile(fn, backend=backend, dynamic=True, fullgraph=True)
    weight = torch.ones(3, requires_grad=torch.is_grad_enabled())
    for rows in (5, 6):
        given = torch.randn(8, 4)
        wanted, window = given.clone(), slice(1, rows + 1)
        results, expected = [*compiled(given[window], weight), given], [*fn(wanted[window], weight), wanted]
        assert_same(results, expected)
        assert shared_memory(results) == shared_memory(expected)


def test_inputs_that_are_returned_beside_inputs_that_share_memory() -> None:
    """Dynamo returns such inputs itself. Where it takes no part, AOTAutograd takes their places from results."""

    def fn(x, turned, y):
        y.view(-1).add_(1)
        turned.mul_(2)
        return y, x + 1

    def make():
        x = torch.arange(8.0).view(2, 4)
        return x, x.t(), torch.arange(12.0).view(3, 4)[1:]

    given, wanted = make(), make()
    (result, _), (expected, _) = npugraph_ex(torch.fx.symbolic_trace(fn), make())(*given), fn(*wanted)
    assert torch.equal(result, expected)
    assert shared_memory([given, result]) == shared_memory([wanted, expected])


def test_a_written_input_comes_back_as_itself() -> None:
    compiled = compile_ex(lambda x: x.add_(1))
    x = torch.zeros(3)
    assert compiled(compiled(compiled(x))) is x
    assert torch.equal(x, torch.full((3,), 3.0))


def test_results_are_never_written_again() -> None:
    compiled = compile_ex(lambda x: (x + 1, (x * 2).view(-1)[1:]))
    held = [compiled(torch.full((3,), float(i))) for i in range(10)]
    for i, (first, second) in enumerate(held):
        assert torch.equal(first, torch.full((3,), i + 1.0))
        assert torch.equal(second, torch.full((2,), i * 2.0))


def test_results_may_be_written_by_the_caller() -> None:
    compiled = compile_ex(lambda x: (x + 1, torch.tensor([1.0, 2.0]), torch.zeros(2)))
    for _ in range(3):
        first, constant, zeros = compiled(torch.ones(2))
        assert torch.equal(first, torch.full((2,), 2.0))
        assert torch.equal(constant, torch.tensor([1.0, 2.0]))
        assert torch.equal(zeros, torch.zeros(2))
        with torch.no_grad():
            for result in (first, constant, zeros):
                result.add_(5)


def test_results_as_inputs_of_the_next_call() -> None:
    compiled = compile_ex(lambda x: x * 2 + 1)
    x = torch.ones(3)
    for _ in range(5):
        x = compiled(x)
    assert torch.equal(x, torch.full((3,), 63.0))


def test_out_arguments() -> None:
    def fn(x, out):
        return torch.add(x, 1, out=out)

    def itself():
        x = torch.randn(3)
        return x, x

    check(fn, lambda: (torch.randn(3), torch.randn(3)), itself, aliases=True)


def new_values(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.data = y * 2
    return x + 1


def memory_of_another(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.data = y
    return x + 1


def a_part(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x.data = y[1:] * 2
    return x * 3, y + 1


def returned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.data = y * 2
    return x


@pytest.mark.parametrize("fn", [new_values, memory_of_another, a_part, returned])
def test_inputs_that_get_other_memory(fn) -> None:
    compiled, found = compile_ex(fn), []
    for call in (fn, compiled, compiled):
        x, y = torch.arange(3.0), torch.full((3,), 5.0)
        results = call(x, y)
        y.add_(1)
        found.append((results, x, shared_memory((results, x, y))))
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
