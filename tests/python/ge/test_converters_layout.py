# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that move elements, make tensors of numbers, and read or write at places that tensors
name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from npugraph.ge.converters import MissingConverters
from tests.python.ge.converted import check_values, converted
from tests.python.ge.converted import random_tensor as t

aten = torch.ops.aten
f32, bf16, i64, i32, flags = torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool
LAST = 2**63 - 1


def places(*size: int, dtype: torch.dtype = i64) -> torch.Tensor:
    """Places 0 and 1 in turn."""
    return (torch.arange(math.prod(size), dtype=dtype) % 2).reshape(size)


Case = tuple[Callable[..., Any], list[torch.Tensor], str]

SHAPES: list[Case] = [
    (lambda x: x.view(-1), [t(2, 3)], "Reshape(x, [6])"),
    (lambda x: aten._unsafe_view(x, [3, 2]), [t(2, 3)], "Reshape(x, [3, 2])"),
    (lambda x: aten.reshape(x, [1, -1]), [t(2, 3)], "Reshape(x, [1, 6])"),
    (lambda x: x.t(), [t(2, 3)], "Transpose(x, [1, 0])"),
    (lambda x: x.t(), [t(3)], "Identity(x)"),
    (lambda x: x.transpose(0, -1), [t(2, 3, 4)], "Transpose(x, [2, 1, 0])"),
    (lambda x: x.permute(2, 0, -2), [t(2, 3, 4)], "Transpose(x, [2, 0, 1])"),
    (lambda x: x.squeeze(), [t(2, 1, 3, 1)], "Squeeze(x, axis=[1, 3])"),
    (lambda x: x.squeeze(-1), [t(2, 1)], "Squeeze(x, axis=[1])"),
    (lambda x: x.squeeze(0), [t(2, 1)], "Identity(x)"),
    (lambda x: x.unsqueeze(-1), [t(2)], "Unsqueeze(x, axes=[-1])"),
    (lambda x: x.expand(4, -1, 3), [t(2, 1)], "BroadcastTo(x, [4, -1, 3])"),
    (lambda x: x.repeat(2, 1, 2), [t(2, 3)], "Tile(x, [2, 1, 2])"),
    (lambda x: (-x).as_strided((2, 2), (1, 2), 1), [t(2, 3)], "AsStrided(Neg(x), [2, 2], [1, 2], [1])"),
    (lambda x: (-x).as_strided((0, 9), (9, 9), 1), [t(2, 3)], "AsStrided(Neg(x), [0, 9], [9, 9], [1])"),
    (lambda x: x.as_strided((3, 2), (1, 1)), [t(4)], "AsStrided(x, [3, 2], [1, 1], [0])"),
    (
        lambda x: (-x).as_strided((2,), (2,), 1),
        [t(2, 3).t()],
        "AsStrided(Transpose(Neg(x), [1, 0]), [2], [2], [1])",
    ),
    (lambda x: x.detach(), [t(2)], "Identity(x)"),
    (lambda x: x.clone(), [t(2)], "TensorMove(x)"),
    (lambda x: x.clone(memory_format=torch.contiguous_format), [t(2)], "TensorMove(x)"),
]

PARTS: list[Case] = [
    (lambda x, y: torch.cat([x, y], -1), [t(2, 3), t(2, 3, dtype=i32)], "ConcatV2([x, Cast(y, FLOAT)], 1)"),
    (lambda x, y: torch.cat([x, y], -1), [t(2, 3), t(0)], "ConcatV2([x], 1)"),
    (lambda x, y: torch.cat([x, y]), [t(0), t(0)], "ConcatV2([x, y], 0)"),
    (lambda x, y: torch.stack([x, y], -1), [t(2, 3), t(2, 3)], "Pack([x, y], axis=2)"),
    (lambda x: x.unbind(1)[1], [t(2, 3)], "Unpack(x, num=3, axis=1)[1]"),
    (lambda x: x.split(2, -1)[2], [t(2, 5)], "SplitV(x, [2, 2, 1], 1:INT32, num_split=3)[2]"),
    (lambda x: x.split([1, 2], 1)[0], [t(2, 3)], "SplitV(x, [1, 2], 1:INT32, num_split=2)[0]"),
    (lambda x: x.chunk(2), [t(2, 3)], "; ".join(f"SplitV(x, [1, 1], 0:INT32, num_split=2)[{i}]" for i in range(2))),
    (lambda x: x[1:], [t(2, 3)], f"StridedSliceV2(x, [1], [{LAST}], [0], [1], end_mask=1)"),
    (lambda x: x[:, -2:-1], [t(2, 3)], "StridedSliceV2(x, [-2], [-1], [1], [1])"),
    (lambda x: x[:, ::2], [t(2, 3)], f"StridedSliceV2(x, [0], [{LAST}], [1], [2], end_mask=1)"),
    (lambda x: x[:, -1], [t(2, 3)], "GatherV2(x, -1, [1], negative_index_support=True)"),
    (lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=7), [t(2, 3)], "PadV3(x, [0, 3, 1, 2], 7.0)"),
    (lambda x: x.tril(-1), [t(2, 3)], "Tril(x, diagonal=-1)"),
    (lambda x: x.triu(), [t(2, 3)], "Triu(x)"),
    (
        lambda x: x.roll(-2, -1),
        [t(2, 3)],
        f"ConcatV2([StridedSliceV2(x, [-1], [{LAST}], [1], [1], end_mask=1), "
        "StridedSliceV2(x, [0], [-1], [1], [1])], 1)",
    ),
    (lambda x: x.roll(3, -1), [t(2, 3)], "Identity(x)"),
    (
        lambda x, y: aten.slice_scatter(x, y, 1, 1, 3),
        [t(2, 5), t(2, 2)],
        "ConcatV2([StridedSliceV2(x, [0], [1], [1], [1]), y, "
        f"StridedSliceV2(x, [3], [{LAST}], [1], [1], end_mask=1)], 1)",
    ),
    (lambda x, y: aten.slice_scatter(x, y, 1), [t(2, 5), t(2, 5)], "ConcatV2([y], 1)"),
    (
        lambda x, y: aten.select_scatter(x, y, 1, -1),
        [t(2, 5), t(2)],
        "ConcatV2([StridedSliceV2(x, [0], [4], [1], [1]), Unsqueeze(y, axes=[1])], 1)",
    ),
]

NUMBERS: list[Case] = [
    (lambda: torch.arange(5), [], "Range(0, 5, 1)"),
    (lambda: torch.arange(1, 5, 2, dtype=f32), [], "Range(1.0, 5.0, 2.0)"),
    (lambda: torch.full((2,), 1.5), [], "Fill([2], 1.5)"),
    (lambda: torch.zeros(()), [], "Fill([], 0.0)"),
    (lambda: torch.ones((1, 2), dtype=flags), [], "Fill([1, 2], True)"),
    (
        lambda: torch.eye(2, 3),
        [],
        "Cast(Equal(Unsqueeze(Range(0, 2, 1), axes=[1]), Unsqueeze(Range(0, 3, 1), axes=[0])), FLOAT)",
    ),
    (lambda: torch.scalar_tensor(2, dtype=bf16), [], "2.0:BF16"),
    (lambda x: x.new_ones((2,)), [t(3, dtype=i32)], "Fill([2], 1:INT32)"),
    (lambda x: x.new_zeros((2,), dtype=bf16), [t(3)], "Fill([2], 0.0:BF16)"),
    (lambda x: torch.zeros_like(x, dtype=i64), [t(2, 3)], "ZerosLike(Cast(x, INT64))"),
    (lambda x: torch.ones_like(x), [t(2, 3)], "OnesLike(x)"),
    (lambda x: torch.full_like(x, 2), [t(2, 3)], "Fill([2, 3], 2.0)"),
    (lambda x: torch.empty_like(x) * 0, [t(2)], "Mul(Fill([2], 0.0), 0.0)"),
    (lambda x: aten.fill(x, 3), [t(2)], "Fill([2], 3.0)"),
    (lambda x: x.to(f32), [t(2, dtype=bf16)], "Cast(x, FLOAT)"),
    (lambda x: x.to(f32, copy=True), [t(2)], "TensorMove(x)"),
    (lambda x, y: aten.copy(x, y), [t(2, 3), t(3, dtype=bf16)], "BroadcastTo(Cast(y, FLOAT), [2, 3])"),
]

PLACES: list[Case] = [
    (lambda w, i: torch.nn.functional.embedding(i, w, padding_idx=0), [t(5, 3), places(2)], "GatherV2(w, i, [0])"),
    (lambda x, i: x.gather(1, i), [t(2, 3), places(2, 1)], "GatherElements(x, i, dim=1)"),
    (lambda x, i: x.index_select(1, i), [t(2, 3), places(2)], "GatherV2(x, i, [1])"),
    (lambda x, i: x.index_select(1, i), [t(2, 3), places()], "GatherV2(x, Unsqueeze(i, axes=[0]), [1])"),
    (lambda x, i: aten.index(x, [None, i]), [t(2, 3), places(2)], "IndexByTensor(x, [i], indices_mask=[0, 1])"),
    (
        lambda x, i, j: aten.index(x, [i, None, j]),
        [t(2, 3, 4), places(2), places(2, dtype=i32)],
        "IndexByTensor(x, [i, Cast(j, INT64)], indices_mask=[1, 0, 1])",
    ),
    (
        lambda x, i, y: x.index_copy(1, i, y),
        [t(2, 3), places(2), t(2, 2)],
        "IndexPutV2(TensorMove(x), y, [0, 1], [0, 0], [i])",
    ),
    (
        lambda x, i, y: x.index_copy(0, i, y),
        [t(2, 3), places(), t(1, 3)],
        "IndexPutV2(TensorMove(x), y, [1, 0], [0, 0], [Unsqueeze(i, axes=[0])])",
    ),
    (
        lambda x, i, y: aten.index_put(x, [i], y),
        [t(2, 3), places(4), t(3)],
        "IndexPutV2(TensorMove(x), BroadcastTo(y, [4, 3]), [1, 0], [0, 0], [i])",
    ),
    (
        lambda x, i, j, y: aten.index_put(x, [i, j], y, True),
        [t(2, 3), places(4), places(4), t(4)],
        "IndexPutV2(TensorMove(x), y, [1, 1], [0, 0], [i, j], accumulate=True)",
    ),
    (
        lambda x, i, y: x.scatter(1, i, y),
        [t(2, 3), places(2, 2), t(2, 2)],
        "ScatterElements(x, i, y, axis=1)",
    ),
    (
        lambda x, i, y: x.scatter(0, i, y),
        [t(2, 3), places(1, 2), t(2, 3)],
        "ScatterElements(x, i, Slice(y, [0, 0], [1, 2]))",
    ),
    (
        lambda x, i: x.scatter(1, i, 2.5),
        [t(2, 3), places(2, 2)],
        "ScatterElements(x, i, Fill([2, 2], 2.5), axis=1)",
    ),
    (
        lambda x, i, y: x.scatter_add(-1, i, y),
        [t(2, 3), places(2, 4), t(2, 4)],
        "ScatterElements(x, i, y, axis=1, reduction='add')",
    ),
    (
        lambda x, m, y: aten.index_put(x, [m], y),
        [t(2, 3), t(2, dtype=flags), t()],
        "SelectV2(Unsqueeze(m, axes=[1]), y, x)",
    ),
]


CASES = [*SHAPES, *PARTS, *NUMBERS, *PLACES]
by_case = pytest.mark.parametrize(("function", "inputs", "expected"), CASES, ids=[text for *_, text in CASES])


@by_case
def test_functions_become_the_expected_operators(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str
) -> None:
    assert converted(function, *inputs) == expected


@by_case
def test_converted_functions_keep_their_values(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str
) -> None:
    check_values(function, *inputs)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (lambda x, m: aten.index_put(x, [m], x), [t(2), t(2, dtype=flags)], "an index is a mask"),
        (lambda x, y: aten.slice_scatter(x, y, 0, 0, 4, 2), [t(4), t(2)], "step is not 1"),
        (lambda x: torch.roll(x, 1), [t(4, 2)], "its argument dims is empty"),
        (lambda x: x[:, :2].as_strided((2,), (1,)), [t(4, 3)], "no dense tensor at the start of its memory"),
        (lambda x: x.as_strided((2,), (1,), 0), [t(4)], "memory in which an input may lie anywhere"),
        (lambda x: x.view(4).as_strided((2,), (1,), 0), [t(2, 2)], "memory in which an input may lie anywhere"),
        (lambda x: (-x).as_strided((2, 2), (2, 2)), [t(4)], "beyond the 4 elements"),
        (lambda x: x[:4].as_strided((8,), (1,)), [t(8)], "beyond the 4 elements"),
    ],
)
def test_arguments_that_are_not_converted(
    function: Callable[..., Any], inputs: list[torch.Tensor], reason: str
) -> None:
    with pytest.raises(MissingConverters, match=reason):
        converted(function, *inputs)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.as_strided((x.shape[0] // 2,), (2,)), "its argument size is known only when the graph runs"),
        (lambda x: x.as_strided((2,), (x.shape[0],)), "its argument stride is known only when the graph runs"),
        (lambda x: x.as_strided((2,), (1,)), "the sizes of its input are known only when the graph runs"),
    ],
)
def test_places_of_as_strided_have_to_be_known(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(MissingConverters, match=reason):
        converted(function, t(6, 2), dynamic=True)
