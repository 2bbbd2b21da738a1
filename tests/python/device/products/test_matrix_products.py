# SPDX-License-Identifier: Apache-2.0
"""torch.mm and torch.bmm of npu tensors of two bytes in captured graphs, where they are products of generated code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

SHAPES = {
    "mm": [((5, 96), (96, 33)), ((1, 7), (7, 1)), ((64, 300), (300, 48))],
    "bmm": [((3, 5, 96), (3, 96, 33)), ((1, 1, 8), (1, 8, 1)), ((16, 4, 128), (16, 128, 64))],
}
CASES = [(name, *shapes) for name, cases in SHAPES.items() for shapes in cases]
TYPES = [torch.bfloat16, torch.float16]


def normal(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def replayed(product: Callable[..., torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = product(x, y)
    result.zero_()
    graph.replay()
    return result


def check(result: torch.Tensor, exact: torch.Tensor) -> None:
    """One rounding apart from sums in float32 of the exact products."""
    rounding = torch.finfo(result.dtype).eps
    torch.testing.assert_close(result.cpu().double(), exact, rtol=rounding, atol=rounding * exact.abs().max().item())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "left", "right"), CASES)
def test_products_are_accurate_to_their_type(name, left, right, dtype) -> None:
    x, y = normal(left, dtype, 0), normal(right, dtype, 1)
    result = replayed(getattr(torch, name), x.npu(), y.npu())
    assert result.device.type == "npu"
    assert result.dtype == dtype
    check(result, x.double() @ y.double())


@pytest.mark.parametrize("dtype", TYPES)
def test_products_of_strided_matrices_are_accurate(dtype) -> None:
    x, y = normal((6, 8, 40), dtype, 0), normal((6, 20, 40), dtype, 1)
    left, right = x.npu(), y.npu()
    check(replayed(torch.bmm, left, right.mT), x.double() @ y.mT.double())
    check(
        replayed(torch.bmm, left[::2, 1::3, ::2], right[::2, :, 1::2].mT),
        x[::2, 1::3, ::2].double() @ y[::2, :, 1::2].mT.double(),
    )
    check(replayed(torch.bmm, left[:1].expand(6, 8, 40), right.mT), x[:1].double() @ y.mT.double())
    check(replayed(torch.mm, left[0].t(), right[0, :8]), x[0].t().double() @ y[0, :8].double())


def test_replays_compute_anew() -> None:
    x, y = normal((3, 8, 64), torch.bfloat16, 0).npu(), normal((3, 64, 32), torch.bfloat16, 1).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = torch.bmm(x, y)
    other = normal((3, 8, 64), torch.bfloat16, 2)
    x.copy_(other)
    graph.replay()
    check(result, other.double() @ y.cpu().double())


@pytest.mark.parametrize("shapes", [((3, 0), (0, 2)), ((0, 3), (3, 2)), ((3, 2), (2, 0))])
def test_nothing_to_sum(shapes) -> None:
    x, y = (torch.ones(shape, dtype=torch.bfloat16).npu() for shape in shapes)
    torch.testing.assert_close(replayed(torch.mm, x, y).cpu(), torch.mm(x.cpu(), y.cpu()))


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("mm", (2, 3), (4, 2)),
        ("mm", (2, 2, 3), (3, 2)),
        ("mm", (2, 2, 3), (2, 3, 2)),
        ("bmm", (2, 3), (3, 2)),
        ("bmm", (2, 2, 3), (3, 2)),
        ("bmm", (2, 2, 3), (3, 3, 2)),
        ("bmm", (2, 2, 3), (2, 4, 2)),
    ],
)
def test_wrong_shapes_are_the_errors_of_torch(name, left, right) -> None:
    x, y = (torch.ones(shape, dtype=torch.bfloat16) for shape in (left, right))
    with pytest.raises(RuntimeError) as expected:
        getattr(torch, name)(x, y)
    with pytest.raises(RuntimeError) as found:
        replayed(getattr(torch, name), x.npu(), y.npu())
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
