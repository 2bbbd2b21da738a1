# SPDX-License-Identifier: Apache-2.0
"""Generated loops that compute with places of elements: positions, constants, triangles, several indices, scatters."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import npugraph
from tests.python.backend.checks import check, compile_ex

GENERATE = {"generate_code": True}


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def check_both(fn, *calls, **arguments) -> list[str]:
    """Does `check` with generated code and without it. Returns the names of the tasks with generated code."""
    torch._dynamo.reset()
    artifacts = check(fn, *calls, rounds=1, options=GENERATE, **arguments)
    names = [task.name for artifact in artifacts for task in artifact.tasks]
    torch._dynamo.reset()
    check(fn, *calls, rounds=1, options={"generate_code": False}, **arguments)
    return names


def square(dtype, *sizes):
    return [lambda n=n: (torch.randn(n, n).to(dtype),) for n in sizes]


def causal(x):
    at = torch.arange(x.shape[-1])
    return x.masked_fill(at[None, :] > at[:, None], float("-inf"))


def window(x):
    at = torch.arange(x.shape[-1])
    near = (at - at.unsqueeze(1)).abs() < 3
    return torch.where(near, x, torch.zeros_like(x)) + torch.full_like(x, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
def test_masks_of_positions(dtype) -> None:
    if dtype.is_floating_point:
        names = check_both(causal, *square(dtype, 5, 37), dynamic=True)
        assert names == ["loop.gt.masked_fill"]
    names = check_both(window, *square(dtype, 5, 37), dynamic=True)
    assert not any("arange" in name or "like" in name for name in names)
    check_both(window, *square(dtype, 1, 0, 3))


def test_positions_in_steps_and_parts() -> None:
    def fn(x):
        n = x.shape[0]
        at = torch.arange(3, 3 * n + 3, 3)
        down = torch.arange(n, 0, -1, dtype=torch.int32)
        return at[1:] * 2, at[::2] + 1, at.flip(0) - down, down.view(-1, 1) * at, at.expand(4, n).t() + down[:, None]

    check_both(fn, *[lambda n=n: (torch.randn(n),) for n in (4, 7, 1, 30)], dynamic=True)


def test_elements_of_positions() -> None:
    def fn(x, i):
        at = torch.arange(x.shape[0], x.shape[0] + 8)
        return at[i] * 2, at.gather(0, i % 8) + 1, at.flip(0) * i[:8], at[i[:, None],] - i

    names = check_both(fn, *[lambda n=n: (torch.randn(n), torch.randint(-8, 8, (9,))) for n in (3, 6)], dynamic=True)
    assert not any("arange" in name for name in names)


def test_positions_that_others_read_too() -> None:
    def fn(x):
        at = torch.arange(x.shape[0])
        ones = x.new_ones(x.shape[0])
        return at, at + 1, ones.unsqueeze(1) * x, ones.cumsum(0), at.sort(descending=True).values, at.sum(), ones.sum()

    check_both(fn, *[lambda n=n: (torch.randn(n, 3),) for n in (4, 7, 0)], dynamic=True, exact=False)


def test_positions_of_embeddings() -> None:
    table, words = torch.randn(64, 8), torch.randn(50, 8)

    def fn(ids, past):
        at = torch.arange(past.shape[0], past.shape[0] + ids.shape[1])
        return F.embedding(ids, words) + F.embedding(at.unsqueeze(0), table)

    def make(n, past):
        return lambda: (torch.randint(0, 50, (2, n)), torch.zeros(past))

    names = check_both(fn, make(5, 3), make(9, 20), make(2, 62), dynamic=True)
    assert set(names) == {"loop.embedding", "loop.add"}
    with pytest.raises(IndexError, match="index out of range in self"):
        compile_ex(fn, dynamic=True, options=GENERATE)(torch.zeros(2, 5, dtype=torch.int64), torch.zeros(60))


def test_constants_in_parts_and_behind_products() -> None:
    def fn(x, w):
        n = x.shape[0]
        padded = torch.cat((x.new_zeros(n, 3), x.tanh(), torch.full((n, 2), -1.0)), -1) * 2
        bias = torch.arange(w.shape[1]).expand(n, w.shape[1])
        return padded, torch.where(bias % 2 == 0, x @ w, 0), F.pad(torch.arange(n), (1, 2), value=-7) + 1

    def make(n):
        return lambda: (torch.randn(n, 16), torch.randn(16, 48))

    check_both(fn, make(5), make(1), make(70), dynamic=True, exact=False)


def test_constants_with_sizes_of_others_hold_nothing_back() -> None:
    def fn(x):
        y = x * 2
        return torch.minimum(y, torch.zeros_like(y)) + y.new_ones(y.shape)

    names = check_both(fn, *[lambda n=n: (torch.randn(n, 4),) for n in (5, 9)], dynamic=True)
    assert names == ["loop.mul.minimum.add"]


def test_constants_that_are_written() -> None:
    def fn(x):
        cache = x.new_zeros(x.shape[0], 4)
        cache[:, 1:3] = x[:, :2] * 2
        return cache, cache + 1, torch.zeros_like(x).add_(x).mul_(2)

    check_both(fn, *[lambda n=n: (torch.randn(n, 4),) for n in (5, 2, 9)], dynamic=True)


def test_numbers_of_all_types() -> None:
    def fn(x, b, i):
        n = x.shape[0]
        return (
            torch.ones(n, dtype=torch.bool) & b,
            torch.full((n,), 300, dtype=torch.int16) + i,
            torch.full((n,), True) | b,
            torch.full((n,), n) * i,
            torch.full((n,), 0.1, dtype=torch.float16) + x,
            torch.full((n,), torch.finfo(torch.bfloat16).min, dtype=torch.bfloat16) + x,
            torch.scalar_tensor(2.5) * x,
            x + torch.full_like(x, float("nan")),
        )

    def make(n):
        return lambda: (torch.randn(n), torch.rand(n) > 0.5, torch.randint(-9, 9, (n,), dtype=torch.int32))

    check_both(fn, make(5), make(2), make(0), make(33), dynamic=True)


def test_numbers_that_do_not_fit_raise_what_eager_raises() -> None:
    def fn(x):
        return torch.full((x.shape[0],), 1e6, dtype=torch.float16) + x

    with pytest.raises(RuntimeError, match="without overflow"):
        compile_ex(fn, dynamic=True, options=GENERATE)(torch.randn(3))


TRIANGLES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", TRIANGLES)
def test_triangles_have_the_elements_of_eager(dtype, dynamic) -> None:
    def fn(x):
        y = x.logical_not() if x.dtype == torch.bool else x * 2
        return y.tril(), y.triu(1), y.tril(-2), y.mT.triu(), torch.ones(x.shape[-2:], dtype=x.dtype).tril(1) == y

    for sizes in ((2, 5, 7), (1, 1), (3, 0), (2, 1, 6)):
        check_both(fn, lambda sizes=sizes: ((torch.randn(sizes) * 3).to(dtype),), dynamic=dynamic)


@pytest.mark.parametrize("dim", [-1, -2, (-1, -2)])
def test_triangles_of_reduced_rows(dim) -> None:
    def fn(x):
        y = x.abs().amax(dim, keepdim=True)
        return y.tril() * 2, y.triu() + x, y.triu(1) + x

    names = check_both(fn, lambda: (torch.randn(3, 6, 40),))
    assert any("tril" in name and "amax" in name for name in names)


@pytest.mark.parametrize("dynamic", [False, True])
def test_triangles_in_concatenations(dynamic) -> None:
    def fn(x, y):
        inner = torch.cat(((y + 1).triu(1), y.tril(-1)), -1)
        return torch.cat((x + 1, (y * 2).tril(), inner), -1) * 2, torch.cat((y.abs().triu(), x, y.neg()), -1)

    names = check_both(fn, *[lambda n=n: (torch.randn(4, n), torch.randn(4, 5)) for n in (6, 16, 3)], dynamic=dynamic)
    assert any("tril" in name and "cat" in name for name in names)


def test_triangles_of_symbolic_diagonals() -> None:
    def fn(x, past):
        n = x.shape[0]
        mask = torch.triu(torch.full((n, n + past.shape[0]), float("-inf")), diagonal=past.shape[0] + 1)
        return torch.cat((x.new_zeros(n, past.shape[0]), x), -1) + mask

    names = check_both(fn, *[lambda n=n: (torch.randn(n, n), torch.zeros(n + 2)) for n in (4, 9, 2)], dynamic=True)
    assert not any("full" in name for name in names)


def test_triangles_keep_what_is_no_number_out() -> None:
    x = torch.full((4, 4), float("nan"))
    check_both(lambda x: ((x + 1).tril(), (x + 1).triu(2)), lambda: (x.clone(),))


def index_both(x, i, j):
    return x[i, j] * 2, x[:, i % x.shape[1], j % x.shape[2]] + 1, x[i, :, j % x.shape[2]].neg(), x[i[:, None], j]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_several_indices(dtype) -> None:
    index_type = torch.int32 if dtype == torch.float32 else torch.int64

    def fn(x, i, j):
        if x.dtype == torch.bool:
            return x[i, j].logical_not(), x[:, j, j] ^ x[:, i, j]
        return index_both(x, i, j)

    def make(n):
        return lambda: (
            (torch.randn(5, 6, 7) * 3).to(dtype),
            torch.randint(-5, 5, (n,), dtype=index_type),
            torch.randint(-5, 5, (n,), dtype=index_type),
        )

    names = check_both(fn, make(4), make(9), make(33), dynamic=True)
    assert not any("aten.index" in name for name in names)
    check_both(fn, make(1))
    check_both(fn, make(0))


def test_indices_that_broadcast() -> None:
    def fn(x, i, j, k):
        return x[i, j] + 1, x[i, j, k] * 2, x[:, j, k].exp(), x[i, :, k] - 1, x[..., k].neg()

    def make(*sizes):
        return lambda: tuple([torch.randn(6, 7, 5, 3)[..., 0]] + [torch.randint(-5, 5, size) for size in sizes])

    check_both(fn, make((4, 1), (3,), (4, 3)), make((1,), (2, 1), (1, 1)), exact=False)
    check_both(fn, make((2, 1, 3), (4, 1), (1,)), exact=False)


def test_indices_of_transposed_tensors() -> None:
    def fn(x, i, j):
        return x.mT[i, j % 4] + 1, x[j, i.flip(0)] * 2

    check_both(fn, lambda: (torch.randn(6, 6, 4).transpose(0, 1), torch.arange(3), torch.tensor([5, 0, -2])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_repetitions_and_rotations(dtype) -> None:
    def fn(x):
        n = x.shape[0]
        turned = x.roll(1, 0), x[None].roll((-2, n), (1, 0)), x.mT.roll(-7, 0), x.roll((3, 4), (0, -2))
        return *turned, x.repeat(2, 3, 1), x[:, :1].repeat(2, 1, n), x.mT.repeat(2, 1) != 0, x.repeat(0, 1)

    def make(*size):
        return lambda: ((torch.randn(size) * 3).to(dtype),)

    names = check_both(fn, make(5, 9), make(33, 4), dynamic=True)
    assert not any("aten.roll" in name or "aten.repeat" in name for name in names)
    for size in ((5, 9), (1, 1), (0, 3)):
        check_both(fn, make(*size))
    check_both(lambda x: (x.roll(1, 1), x.roll(3), x.roll((1, 2), (0, 1)), x.repeat(2, 3)), make(5, 9))


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bad", [7, -8, 1 << 40])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: x[i % 6, i] * 2,
        lambda x, i: x[:, i] * 2,
        lambda x, i: x[:, i, i % 4] * 2,
        lambda x, i: x[:, :, i % 4, i] * 2,
        lambda x, i: x[0, 0].scatter(1, i[:, None].expand(4, 1), 1.0) * 2,
        lambda x, i: x[0, 0].scatter_add(1, i[:, None], x[0, 0]) * 2,
        lambda x, i: (x[0, 0] * 2).scatter(1, i[:, None].expand(4, 3), 1.0),
    ],
)
def test_indices_outside_raise_what_eager_raises(fn, bad, dynamic) -> None:
    x, index = torch.randn(6, 7, 4, 7), torch.tensor([3, 0, bad, 4])
    with pytest.raises((IndexError, RuntimeError)) as eager:
        fn(x, index)
    compiled = compile_ex(fn, options=GENERATE, dynamic=dynamic)
    with pytest.raises(eager.type) as raised:
        compiled(x, index)
    assert str(eager.value).splitlines()[0] in str(raised.value)
    good = torch.tensor([3, 0, 6, 4])
    torch.testing.assert_close(compiled(x, good), fn(x, good))


@pytest.mark.parametrize("dynamic", [False, True])
def test_indices_that_reach_no_element_are_not_looked_at(dynamic) -> None:
    def fn(x, i, y):
        part = x[:, 2:]
        y.clone()[:, 2:].index_copy_(0, i, part[:2])
        return (part * 2)[i] + 1

    def make(rows, columns, last):
        return lambda: (torch.randn(rows, columns), torch.tensor([1, last]), torch.randn(4, columns))

    check(fn, make(5, 7, 3), make(4, 2, 9), dynamic=dynamic, options=GENERATE)


def test_scatters_read_as_much_as_the_index_is_large() -> None:
    def fn(x, y, i):
        y = y * 2 + 1
        rows = torch.zeros_like(y, dtype=torch.int64)[:1]
        made = x.scatter(0, rows[:, :2], y), x.scatter_add(0, rows[:, :2], y)
        x.scatter_(0, rows, y * 3)
        x.scatter_(1, i, (y - 1)[:2])
        return made

    def make():
        return torch.randn(3, 4), torch.randn(3, 4), torch.tensor([[1], [3]])

    check_both(fn, make)


@pytest.mark.parametrize("read", [torch.Tensor.index_select, lambda x, _, i: F.embedding(i, x)])
def test_rows_of_an_empty_table(read) -> None:
    def fn(x, i):
        return read(x, 0, i) + 1

    with pytest.raises(RuntimeError, match="INDICES element is out of DATA bounds"):
        compile_ex(fn, options=GENERATE)(torch.zeros(1, 0), torch.tensor([0, 5]))


def test_failed_scatters_write_nothing() -> None:
    def fn(x, i):
        x.scatter_(1, i, 1.0)

    x = torch.zeros(3, 5)
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 1 with size 5"):
        compile_ex(fn, options=GENERATE)(x, torch.tensor([[0], [5], [1]]))
    assert torch.equal(x, torch.zeros(3, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32])
def test_scatters_of_one_element_of_each_row(dtype) -> None:
    def fn(x, i, v):
        hot = x.new_zeros(x.shape[0], 20).scatter(1, i, 1)
        y = x * 2
        first = y.scatter_add(0, i.t() * 0, y[:1, : x.shape[0]])
        return hot, hot + 1, y.scatter(1, i, v), y.scatter_add(1, i, v), first

    def make(n):
        return lambda: (
            (torch.randn(n, 20) * 9).to(dtype),
            torch.randint(0, 20, (n, 1)),
            (torch.randn(20, n) * 9).to(dtype).t(),
        )

    check_both(fn, make(20))
    check_both(fn, make(1))
    names = check_both(lambda x, i, v: x.scatter(1, x.argmax(1, True), 1) + 1, make(5), make(33), make(2))
    assert {name for name in names if "scatter" in name} == {"loop.scatter.add"}


def test_scatters_into_operands() -> None:
    def fn(x, y, i):
        x.scatter_(1, i, -3.0)
        y[:, ::2].scatter_(1, i[:, :1], x)
        z = (x * 3).scatter_add(0, i[:1, :5] * 0 + 2, y)
        return z, torch.zeros_like(x).scatter_(1, i, 7)

    def make(n):
        return lambda: (torch.randn(n, 12), torch.randn(n, 24), torch.randint(0, 12, (n, 6)))

    check_both(fn, make(5), make(9), make(4))
    check_both(fn, make(5), make(3), dynamic=True)


def test_scatters_of_duplicates_keep_their_order() -> None:
    def fn(x, i, v):
        return (x * 2).scatter(1, i, v), (x + 1).scatter_add(1, i, v)

    check_both(
        fn,
        lambda: (torch.randn(4, 9), torch.randint(0, 3, (4, 8)), torch.randn(4, 8)),
        exact=False,
    )


def test_results_do_not_depend_on_threads() -> None:
    def fn(x, i):
        at = torch.arange(x.shape[0])
        return x[at[:, None], i] + 1, x.scatter(1, i[:, :1], 1.0) * 2, torch.where(at[:, None] > i, x[:, :300], 0)

    x, i = torch.randn(300, 400), torch.randint(0, 300, (300, 300))
    compiled = compile_ex(fn, options=GENERATE, dynamic=True)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(compiled(x, i))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(results[0], fn(x, i), strict=True))
    assert any(task.kind == "loop" for artifact in npugraph.artifacts() for task in artifact.tasks)
