# SPDX-License-Identifier: Apache-2.0
"""Products of npu tensors have the same bits in eager mode, in captured graphs and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
Call = tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]

# Functions, and the sizes of their operands.
CALLS: dict[str, Call] = {
    "mm": (torch.mm, ((33, 96), (96, 48))),
    "mm of one row": (torch.mm, ((1, 100), (100, 33))),
    "mm of few rows": (torch.mm, ((5, 301), (301, 70))),
    "mm, small": (torch.mm, ((2, 3), (3, 4))),
    "mm of turned weights": (lambda x, y: x @ y.t(), ((64, 300), (48, 300))),
    "mm of turned weights, few rows": (lambda x, y: x @ y.t(), ((3, 331), (47, 331))),
    "mm of turned rows": (lambda x, y: x.t() @ y, ((70, 33), (70, 48))),
    "mm of parts": (lambda x, y: x[::2, 1::3] @ y[:, ::2], ((66, 96), (32, 96))),
    "mm with out": (
        lambda x, y: torch.mm(x, y, out=torch.empty(33, 48, dtype=x.dtype, device="npu")),
        ((33, 96), (96, 48)),
    ),
    "bmm": (torch.bmm, ((16, 4, 512), (16, 512, 128))),
    "bmm of one row": (torch.bmm, ((8, 1, 129), (8, 129, 65))),
    "bmm, small": (torch.bmm, ((2, 1, 3), (2, 3, 2))),
    "bmm of turned matrices": (lambda x, y: x.bmm(y.mT), ((6, 40, 72), (6, 20, 72))),
    "bmm of turned rows": (lambda x, y: x.mT.bmm(y), ((6, 72, 5), (6, 72, 20))),
    "bmm of an expanded factor": (lambda x, y: x.bmm(y.expand(6, -1, -1)), ((6, 4, 200), (1, 200, 50))),
    "bmm of an expanded left factor": (lambda x, y: x.expand(6, -1, -1).bmm(y.mT), ((1, 4, 200), (6, 50, 200))),
    "matmul of heads": (torch.matmul, ((2, 8, 5, 64), (2, 8, 64, 40))),
    "matmul of shared heads": (lambda x, y: x @ y.mT, ((2, 8, 1, 64), (2, 1, 40, 64))),
    "matmul of rows in front": (lambda x, y: x.transpose(1, 2) @ y.transpose(1, 2).mT, ((2, 7, 8, 64), (2, 9, 8, 64))),
    "matmul with one matrix": (torch.matmul, ((3, 5, 96), (96, 33))),
    "matmul with a vector": (torch.matmul, ((3, 5, 96), (96,))),
    "addmm": (torch.addmm, ((48,), (33, 96), (96, 48))),
    "addmm of matrices": (torch.addmm, ((33, 48), (33, 96), (96, 48))),
    "addmm of a column": (torch.addmm, ((33, 1), (33, 96), (96, 48))),
    "addmm, small": (torch.addmm, ((4,), (2, 3), (3, 4))),
    "addmm with numbers": (lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), ((48,), (33, 96), (96, 48))),
    "addmm of what is written": (lambda b, x, y: b.clone().addmm_(x, y), ((33, 48), (33, 96), (96, 48))),
    "baddbmm": (torch.baddbmm, ((6, 1, 50), (6, 4, 200), (6, 200, 50))),
    "linear": (lambda b, x, w: F.linear(x, w, b), ((48,), (2, 33, 96), (48, 96))),
    "linear of few rows": (lambda b, x, w: F.linear(x, w, b), ((48,), (4, 331), (48, 331))),
    "linear without a bias": (F.linear, ((2, 3, 96), (48, 96))),
    "linear and relu": (lambda b, x, w: F.linear(x, w, b).relu(), ((48,), (6, 96), (48, 96))),
    "linear, leaky relu and residual": (
        lambda r, b, x, w: F.leaky_relu(F.linear(x, w, b), 0.3) + r,
        ((7, 48), (48,), (7, 96), (48, 96)),
    ),
    "bmm, scaled and masked": (
        lambda x, y, m: (x.bmm(y.mT) * 0.3).masked_fill(m > 0, -1.5),
        ((6, 4, 200), (6, 50, 200), (4, 50)),
    ),
    "two products of one factor": (lambda x, v, w: F.linear(x, v) * F.linear(x, w), ((5, 200), (60, 200), (60, 200))),
    "product of a product": (lambda x, v, w: F.linear(F.linear(x, v).relu(), w), ((5, 200), (60, 200), (30, 60))),
    "einsum": (lambda x, y: torch.einsum("bhqd,bhkd->bhqk", x, y), ((2, 3, 4, 64), (2, 3, 5, 64))),
}


def operands(sizes: Sequence[tuple[int, ...]], dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator).to(dtype).npu() for size in sizes]


def captured(fn: Callable[..., torch.Tensor], args: Sequence[torch.Tensor]) -> torch.Tensor:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = fn(*args)
    result.zero_()
    graph.replay()
    return result


def assert_same_bits(got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    got, want = got.cpu(), want.cpu()
    assert torch.equal(got, want), f"{what}: {int((got != want).sum())} of {want.numel()} elements differ from eager"


def assert_same_in_graphs(fn: Callable[..., torch.Tensor], args: Sequence[torch.Tensor]) -> torch.Tensor:
    """Compares a captured and a compiled call with eager. Returns eager's result."""
    with torch.no_grad():
        eager = fn(*args)
        assert_same_bits(captured(fn, args), eager, "captured")
        compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, dynamic=False)
        assert_same_bits(compiled(*args), eager, "compiled")
    return eager


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def cases() -> Iterator[Any]:
    """All calls of all types, most of them long."""
    some = {"mm, small", "mm of turned weights, few rows", "bmm of an expanded factor", "addmm", "linear and relu"}
    for name in CALLS:
        for dtype in DTYPES:
            is_long = dtype != torch.float16 and name not in some
            yield pytest.param(name, dtype, marks=[pytest.mark.long] if is_long else [])


@pytest.mark.parametrize(("name", "dtype"), list(cases()))
def test_same_bits(name: str, dtype: torch.dtype) -> None:
    fn, sizes = CALLS[name]
    assert_same_in_graphs(fn, operands(sizes, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["mm, small", "mm of turned weights, few rows", "bmm"])
def test_same_bits_in_other_ways(name: str, dtype: torch.dtype) -> None:
    fn, sizes = CALLS[name]
    args = operands(sizes, dtype)
    with torch.no_grad():
        eager = fn(*args)
        for options in ({"dynamic": True}, {"dynamic": False, "options": {"generate_code": False}}):
            torch._dynamo.reset()
            compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, **options)
            assert_same_bits(compiled(*args), eager, str(options))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 5, 33, 64])
def test_same_bits_of_dequantised_weights(rows: int, dtype: torch.dtype) -> None:
    (x, scale) = operands(((rows, 200), (60, 1)), dtype)
    codes = torch.randint(-128, 128, (60, 200), generator=torch.Generator().manual_seed(0)).to(torch.int8).npu()

    def fn(x: torch.Tensor, codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x @ (codes.to(x.dtype) * scale).t()

    with torch.no_grad():
        compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, dynamic=False)
        assert_same_bits(compiled(x, codes, scale), fn(x, codes, scale), "compiled")


@pytest.mark.parametrize(
    ("fn", "sizes"),
    [
        (lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), ((5, 5, 10), (5, 6, 10))),
        (F.bilinear, ((5, 10), (5, 12), (7, 10, 12))),
        (torch.linalg.pinv, ((5, 7),)),
    ],
    ids=["cdist", "bilinear", "pinv"],
)
def test_same_bits_of_products_inside_of_kernels(
    fn: Callable[..., torch.Tensor], sizes: Sequence[tuple[int, ...]]
) -> None:
    args = operands(sizes, torch.float32)
    eager = assert_same_in_graphs(fn, args)
    with_gradients = fn(*[arg.requires_grad_() for arg in args])
    assert_same_bits(with_gradients.detach(), eager, "under gradients")


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_of_gradients(dtype: torch.dtype) -> None:
    def gradients(fn: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, ...]:
        args = [t.requires_grad_() for t in operands(((48,), (6, 200), (48, 200)), dtype)]
        return torch.autograd.grad(fn(*args).sum(), args[1:])

    def fn(b: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w, b).relu()

    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    for got, want in zip(gradients(compiled), gradients(fn), strict=True):
        assert_same_bits(got, want, "gradient")
