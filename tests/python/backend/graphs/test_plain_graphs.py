# SPDX-License-Identifier: Apache-2.0
"""Graphs of odd but plain tensors: constants, no inputs, no elements, no dimensions, dtypes, operators with lists."""

from __future__ import annotations

import pytest
import torch

from tests.python.backend.checks import check_captured


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def written_constant(x):
    t = torch.tensor([1.0, 2, 3])
    t.add_(x)
    return t


CASES = {
    "constants": lambda x: x + torch.tensor([1.0, 2, 3]) + torch.tensor(2),
    "constant as result": lambda x: (torch.tensor([1.0, 2, 3]), x + 1),
    "written constant": written_constant,
    "other results": lambda x: (None, x + 1, 3, "a", 2.5, [x * 2, {"k": x.sin()}]),
    "assert": lambda x: (torch._assert_async(x.sum() < 1e9), x + 1)[1],
    "lists": lambda x: torch._foreach_add([x, x * 2], [x, x]),
    "infinities": lambda x: x.clamp(float("-inf"), float("inf")).masked_fill(x > 0, float("-inf")) * float("nan"),
    "fresh memory": lambda x: torch.empty(3).fill_(2) + torch.empty_strided((2, 3), (1, 2)).zero_() + x,
    "several results": lambda x: (x.sort(), x.topk(2), x.max(0), x.unbind(0), torch.aminmax(x)),
    "linear algebra": lambda x: torch.linalg.qr(torch.outer(x, x))[1].abs() + torch.einsum("i,j->ij", x, x),
    "many dtypes": lambda x: (x.half(), x.bfloat16(), x.double(), x.to(torch.float8_e4m3fn), x.to(torch.int8), x > 0),
}


@pytest.mark.parametrize("fn", CASES.values(), ids=CASES.keys())
def test_functions_of_a_vector_are_captured_whole(fn) -> None:
    check_captured(fn, lambda: (torch.randn(3),))


def test_lists_written_in_place() -> None:
    def fn(x, y):
        torch._foreach_mul_([x, y], 2.0)
        return x + y

    check_captured(fn, lambda: (torch.randn(3), torch.randn(3)))


def test_no_elements() -> None:
    check_captured(
        lambda x: (x.sum(), x.sin(), torch.cat([x, x]), x @ x.t(), x.t() @ x, x.reshape(0, 1, 3)),
        lambda: (torch.randn(0, 3),),
    )


def test_no_dimensions() -> None:
    check_captured(
        lambda x: (x.sum(), x.sin() + 1, x[None].expand(3) * 2, x.item() if False else x), lambda: (torch.randn(()),)
    )


def test_no_inputs() -> None:
    check_captured(lambda: (torch.arange(4) * 2, torch.full((2,), 3)), tuple)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64]
)
def test_arithmetic_of_dtypes(dtype) -> None:
    def fn(x, y):
        return x + y, x * y, torch.maximum(x, y), x.sum(), torch.where(x > y, x, y), x.to(torch.float32) + 0.5

    check_captured(fn, lambda: (torch.randint(0, 2, (3, 4)).to(dtype), torch.randint(0, 2, (4,)).to(dtype)))


def test_mixed_dtypes() -> None:
    check_captured(
        lambda x, i, h: (x + i, i + 1.5, i / 2, h + x, h * 2, i // 2, torch.cat([x, i])),
        lambda: (torch.randn(3), torch.arange(3), torch.randn(3).half()),
    )


def test_scatter_and_gather() -> None:
    def fn(x, i):
        j = i[0]
        return (
            x.scatter(0, i, 1.0),
            x.scatter_add(0, i, x),
            x.gather(1, i),
            x.index_add(0, j, x),
            x.index_copy(0, j, x * 2),
            x[j, j],
            x.index_put((j,), x[0], accumulate=True),
        )

    check_captured(fn, lambda: (torch.randn(3, 3), torch.tensor([[0, 1, 2]] * 3)))
