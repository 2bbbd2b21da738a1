# SPDX-License-Identifier: Apache-2.0
"""Programs that once gave a wrong result or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.python.backend.checks import assert_same, check, compile_ex


@pytest.fixture(scope="module")
def counts() -> Iterator[Any]:
    with torch.library._scoped_library("npugraph_regressions", "FRAGMENT") as library:
        library.define("counts(Tensor x) -> (SymInt, SymInt)")
        library.impl("counts", lambda x: (x.numel(), int(x.sum())), "CPU")
        name = "npugraph_regressions::counts"
        fake = lambda x: (x.numel(), torch.library.get_ctx().new_dynamic_size())  # noqa: E731
        torch.library.register_fake(name, fake, lib=library)
        yield torch.ops.npugraph_regressions.counts


def test_of_two_numbers_only_the_second_is_unknown(counts: Any) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        size, total = counts(x)
        return torch.ones(total) * size, size

    check(fn, lambda: (torch.tensor([1, 3, 3]),), lambda: (torch.tensor([2, 0, 3]),))


def test_sizes_that_are_both_zero() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ones = torch.ones(a.nonzero().shape[0], b.nonzero().shape[0])
        return ones, (ones * 2).exp() + 1

    def calls(a: int, b: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.arange(4) < a, torch.arange(4) < b)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(fn, calls(0, 0), calls(2, 0), calls(0, 3), calls(2, 3))


def fails_after(fn: Callable[..., Any], *given: torch.Tensor) -> None:
    """Checks that eager and compiled code both raise IndexError, and leave the same values in their arguments."""
    want = [x.clone() for x in given]
    with pytest.raises(IndexError):
        fn(*want)
    got = [x.clone() for x in given]
    with pytest.raises(IndexError):
        compile_ex(fn)(*got)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)


BAD_INDEX = torch.tensor([9])


def test_equal_values_keep_the_place_of_a_write() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        r = x * y
        o = t[i]
        x.mul_(y)
        return r.sum() + o.sum()

    fails_after(fn, torch.rand(4), torch.rand(4), torch.rand(4), BAD_INDEX)


def test_equal_values_keep_the_place_of_a_copy() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        r = y.exp()
        o = t[i]
        x.copy_(y.exp())
        return r.sum() + o.sum()

    fails_after(fn, torch.rand(4), torch.rand(4), torch.rand(4), BAD_INDEX)


def test_a_write_before_an_operator_that_writes_another_input(custom_update: Any) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y.add_(1)
        custom_update(x)
        return t[i]

    fails_after(fn, torch.rand(4), torch.rand(4), torch.rand(4), BAD_INDEX)


@pytest.fixture(scope="module")
def custom_update() -> Any:
    @torch.library.custom_op("npugraph_regressions::update", mutates_args=("x",))
    def update(x: torch.Tensor) -> None:
        x.mul_(2)

    return update


def test_writes_of_what_is_known_around_an_error() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.zero_()
        o = t[i]
        y.zero_()
        return o

    def by_out(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        o = t[i]
        torch.mul(y, 1, out=x)
        return o

    for written in (fn, by_out):
        fails_after(written, torch.rand(4), torch.rand(4), torch.rand(4), BAD_INDEX)


def test_results_do_not_share_what_they_came_from() -> None:
    def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x.exp().unbind(0)
        return a.relu(), b.relu()

    def first(x: torch.Tensor) -> torch.Tensor:
        return x.exp()[:1].relu()

    check(parts, lambda: (torch.randn(2, 8),), aliases=True)
    compiled = compile_ex(first)
    x = torch.randn(64, 8)
    assert compiled(x).untyped_storage().nbytes() == first(x).untyped_storage().nbytes()


def test_a_symbol_that_nobody_needs() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        b.nonzero()
        return a + 1

    def mixed(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b.nonzero()
        return a + 1, a.nonzero()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(fn, lambda: (torch.randn(4), torch.randn(4)))
        check(mixed, lambda: (torch.randn(4), torch.randn(4)))


def test_a_constant_seen_twice_through_one_view() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        v = torch.arange(6).view(2, 3)
        return x + v * v

    check(fn, lambda: (torch.randn(2, 3),))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("fn", [torch.mul, torch.div])
def test_complex_parts_of_a_concatenation(fn: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([fn(x, y), y], dim=1)

    check(compute, lambda: (torch.randn(5, 7, dtype=dtype), torch.randn(5, 7, dtype=dtype)))


@pytest.mark.parametrize("alpha", [0.1, 3])
@pytest.mark.parametrize("fn", [torch.add, torch.sub])
def test_small_sums_with_a_factor(fn: Callable[..., torch.Tensor], alpha: float) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return fn(x, y, alpha=alpha)

    check(compute, lambda: (torch.randn(37), torch.randn(37)))


def test_parts_without_elements_at_one_place() -> None:
    def compute(x: torch.Tensor) -> torch.Tensor:
        first, second = (x == x).chunk(2, 0)
        return second.index_put_((torch.tensor([1, 0]),), first[:2])

    check(compute, lambda: (torch.zeros(4, 0),))


@pytest.mark.parametrize("fn", [torch.triu, torch.tril])
def test_triangles_of_matrices_beside_a_dimension_of_one_element(fn: Callable[..., torch.Tensor]) -> None:
    def compute(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        part = x[:, ::2]  # its stride in dimension 1 is that of two elements
        return fn(part), torch.cat([part, torch.cat([fn(part), part.roll(1, 0)], -1)], -1)

    check(compute, lambda: (torch.randn(2, 1, 4, 8, dtype=torch.float64)[..., ::2],))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_margins_of_several_labels(batch: tuple[int, ...], dynamic: bool) -> None:
    """The decomposition of torch takes the -1 that ends the labels for one, and gives a row without a batch a size."""

    def make() -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.tensor([[1, 0, -1, 2], [3, -1, 1, 2], [0, 1, 2, 3]])
        return torch.randn(*batch, 4).requires_grad_(), labels if batch else labels[0]

    def fn(x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        single = torch.nn.functional.multi_margin_loss(x, labels[..., 0], reduction="none")
        return torch.nn.functional.multilabel_margin_loss(x, labels, reduction="none"), single

    compiled = compile_ex(fn, dynamic=dynamic)
    x, labels = make()
    results = compiled(x, labels), fn(x, labels)
    assert_same(*results)
    assert_same(*(torch.autograd.grad(sum(map(torch.sum, losses)), x) for losses in results))
    with torch.no_grad():
        check(fn, make, dynamic=dynamic)
