# SPDX-License-Identifier: Apache-2.0
"""Generated loops that read or write at other places than their own: gathers, concatenations, in-place operators."""

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


def kinds(artifacts: list[npugraph.Artifact] | None = None) -> list[str]:
    return [task.kind for artifact in artifacts or npugraph.artifacts() for task in artifact.tasks]


def rotate(x, cos, sin):
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_rotary_embedding_is_one_generated_loop(dtype, dynamic) -> None:
    def make(n):
        x = torch.randn(2, n, 3, 22, dtype=dtype).transpose(1, 2)
        return x, torch.randn(n, 22, dtype=dtype), torch.randn(n, 22, dtype=dtype)

    artifacts = check(
        rotate, lambda: make(5), lambda: make(1), lambda: make(37), dynamic=dynamic, exact=False, options=GENERATE
    )
    assert set(kinds(artifacts)) == {"loop"}
    assert all(len(artifact.tasks) == 1 for artifact in artifacts)


def test_parts_of_all_sizes() -> None:
    def fn(x, y, z):
        return torch.cat((x.exp(), y, z.sigmoid(), x), -1) * 2, torch.cat((y[:, :0], y.tanh()), -1) + 1

    for sizes in ((1, 20, 3), (16, 16, 16), (33, 1, 70), (2, 5, 0)):
        check(fn, lambda sizes=sizes: tuple(torch.randn(4, n) for n in sizes), exact=False, options=GENERATE)


def test_parts_in_parts() -> None:
    def fn(x, y):
        inner = torch.cat((x.neg(), y), -1)
        return torch.cat((y, inner * 3), -1).relu() + 1

    check(fn, lambda: (torch.randn(3, 7), torch.randn(3, 19)), exact=False, options=GENERATE)


def test_parts_with_values_of_rows() -> None:
    def fn(x, y):
        mean = x.mean(-1, keepdim=True)
        return torch.cat((y * mean, x), -1) - mean, torch.cat((mean, x - mean), -1) * 2

    check(fn, lambda: (torch.randn(5, 24), torch.randn(5, 9)), exact=False, options=GENERATE)


def test_only_part() -> None:
    def fn(x, empty):
        y = torch.cat((empty, x.transpose(0, 1).tanh()), -2)
        return torch.cat((y[:0], y), 0), torch.cat((x, x.new_zeros(3, 0)), -1)

    check(fn, lambda: (torch.randn(3, 5, 8)[:, 0], torch.zeros(0)), exact=False, options=GENERATE)


def embed(table, index, x):
    return F.embedding(index, table) * 2 + x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("index_type", [torch.int64, torch.int32])
def test_an_embedding_is_read_within_a_generated_loop(dtype, index_type) -> None:
    def make(*sizes):
        return (
            torch.randn(50, 33, dtype=dtype),
            torch.randint(0, 50, sizes, dtype=index_type),
            torch.randn(*sizes, 33, dtype=dtype),
        )

    for sizes in ((7,), (2, 5), (2, 0), (3, 1, 4)):
        artifacts = check(embed, lambda sizes=sizes: make(*sizes), exact=False, options=GENERATE)
    assert "loop" in kinds(artifacts)


def test_embedding_of_symbolic_sizes() -> None:
    def make(n):
        return torch.randn(50, 8), torch.randint(0, 50, (2, n)), torch.randn(2, n, 8)

    check(embed, lambda: make(3), lambda: make(17), lambda: make(64), dynamic=True, options=GENERATE)


def select(x, index):
    return x.index_select(0, index) + 1, x[:, index % x.shape[1]] * 2, x[index - x.shape[0]].neg()


def test_selections_by_index_are_those_of_eager() -> None:
    check(select, lambda: (torch.randn(6, 40), torch.tensor([5, 0, 3, 3])), options=GENERATE)
    check(
        lambda x, i: (x[:, i] * 2, x[:, :, i[0]] + 1),
        lambda: (torch.randn(3, 6, 10), torch.tensor([[1, -6], [5, 0]])),
        options=GENERATE,
    )
    check(
        lambda x, i: (x.gather(-1, i) * 2, x.gather(0, i) + x[:2, :3]),
        lambda: (torch.randn(4, 5), torch.randint(0, 4, (2, 3))),
        options=GENERATE,
    )


@pytest.mark.parametrize("bad", [-1, 50, 1 << 40, -(1 << 62)])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: F.embedding(i, x) * 2,
        lambda x, i: x.index_select(0, i) * 2,
        lambda x, i: x[i - 60] * 2,
        lambda x, i: x.gather(0, i[:, None].expand(-1, 8)) * 2,
        lambda x, i: x.clone().index_copy_(0, i, x[: i.shape[0]] * 2),
    ],
)
def test_indices_outside_raise_what_eager_raises(fn, bad) -> None:
    x, index = torch.randn(50, 8), torch.tensor([3, bad, 4])
    with pytest.raises((IndexError, RuntimeError)) as eager:
        fn(x, index)
    compiled = compile_ex(fn, options=GENERATE)
    with pytest.raises(eager.type) as raised:
        compiled(x, index)
    assert str(eager.value).splitlines()[0] in str(raised.value)
    good = torch.tensor([3, 0, 4])
    if "60" not in str(fn.__code__.co_consts):
        torch.testing.assert_close(compiled(x, good), fn(x, good))


def update(cache, position, key, cos, sin):
    cache.index_copy_(2, position, rotate(key, cos, sin))
    return cache.sum() * 0 + key.sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cache_update(dtype) -> None:
    def make(*positions):
        n = len(positions)
        return (
            torch.zeros(1, 3, 16, 8, dtype=dtype),
            torch.tensor(positions),
            torch.randn(1, n, 3, 8, dtype=dtype).transpose(1, 2),
            torch.randn(n, 8, dtype=dtype),
            torch.randn(n, 8, dtype=dtype),
        )

    for positions in ((4,), (3, 9, 0)):
        check(update, lambda positions=positions: make(*positions), exact=False, options=GENERATE)


def test_a_failed_update_writes_nothing() -> None:
    def fn(cache, position, value):
        cache.mul_(2)
        cache.index_copy_(0, position, value * 2)

    cache = torch.ones(8, 4)
    with pytest.raises(IndexError, match=r"index_copy_.*index 8 is out of bounds for dimension 0 with size 8"):
        compile_ex(fn, options=GENERATE)(cache, torch.tensor([1, 8]), torch.randn(2, 4))
    assert torch.equal(cache, torch.full((8, 4), 2.0))


def test_writes_into_operands() -> None:
    def fn(x, y, z):
        x.copy_(torch.tanh(x * y) + 1)
        y.add_(x, alpha=0.5).mul_(2)
        z[:, 3:9] = x[:, 3:9] * y[:, :6]
        z[::2].fill_(1.5)
        return x + z

    def make():
        return tuple(torch.randn(6, 21) for _ in range(3))

    check(fn, make, exact=False, options=GENERATE)
    check(fn, lambda: tuple(t.bfloat16() for t in make()), exact=False, options=GENERATE)


def test_writes_into_other_types_and_strides() -> None:
    def fn(x, y, i):
        x.copy_(y * 2)
        i.copy_(y * 10)
        y.t().mul_(3)

    def make():
        return torch.randn(5, 2, 12)[:, 1].half(), torch.randn(5, 12), torch.zeros(12, 5, dtype=torch.int32).t()

    check(fn, make, exact=False, options=GENERATE)


def test_writes_that_overlap_what_is_read() -> None:
    def fn(x, y):
        x[1:] = torch.tanh(x[:-1])
        y.copy_(torch.softmax(y, -1))
        y += y.flip(0)
        return x * 2

    check(fn, lambda: (torch.randn(7, 9), torch.randn(4, 40)), exact=False, options=GENERATE)


def test_reductions_without_their_dimension() -> None:
    def fn(x):
        y = x.exp()
        return y.sum(-1), y.mean(-1), y.amax(-1), y.argmax(-1), y.argmin(-1, keepdim=True), *y.max(-1), *x.min(-1)

    for size in ((5, 33), (3, 2, 7), (40,), (4, 1)):
        check(fn, lambda size=size: (torch.randn(size),), exact=False, options=GENERATE)
    check(lambda x: (x.argmax(-1), (x * 2).max(-1)), lambda: (torch.randint(-9, 9, (6, 50)),), options=GENERATE)


def test_extremes_of_nan_and_ties() -> None:
    x = torch.tensor([[1.0, float("nan"), 3.0, float("nan")], [2.0, 2.0, -1.0, 2.0], [float("-inf")] * 4])
    check(lambda x: ((x * 1).argmax(-1), (x * 1).argmin(-1), *(x * 1).max(-1)), lambda: (x.clone(),), options=GENERATE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32])
def test_cumulative_sums(dtype) -> None:
    def fn(x):
        y = x * 2
        total = torch.cumsum(y, -1, dtype=dtype)
        return total * y, total - 1

    def make(*size):
        return (torch.randint(-5, 5, size).to(dtype),)

    for size in ((3, 70), (2, 1), (130,), (0, 4)):
        check(fn, lambda size=size: make(*size), exact=False, options=GENERATE)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm(dtype, memory_format) -> None:
    norm = torch.nn.BatchNorm2d(6).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    norm.weight.normal_()
    norm.bias.normal_()
    norm = norm.to(dtype)

    def fn(x, y):
        return torch.relu(norm(x) + y)

    def make():
        return tuple(torch.randn(2, 6, 5, 7, dtype=dtype).to(memory_format=memory_format) for _ in range(2))

    artifacts = check(fn, make, exact=False, options=GENERATE)
    assert set(kinds(artifacts)) == {"loop"}


def test_dense_along_another_dimension() -> None:
    def fn(x, y):
        return (x.t() * y.t()).tanh() + 1

    artifacts = check(fn, lambda: (torch.randn(5, 70), torch.randn(5, 70)), exact=False, options=GENERATE)
    assert set(kinds(artifacts)) == {"loop"}


def test_results_in_the_memory_of_operands() -> None:
    def fn(x, w):
        for _ in range(3):
            x = (torch.tanh(x) @ w) * 2
        return torch.tanh(x) + 1

    check(fn, lambda: (torch.randn(64, 64), torch.randn(64, 64) / 16), exact=False, options=GENERATE)
