# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/sparse_attention/block_sparse_attention.cc."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, by_heads, from_heads, starts_and_ends
from tests.python.device.npu_operators import check, check_gradient, check_refused, normal

HEADS, KEY_HEADS, SIZE, BLOCK = 4, 2, 8, [2, 3]  # BLOCK: rows of queries and of keys in a block
QUERIES, KEYS = [3, 5], [7, 4]


def blocks(rows: int, columns: int) -> torch.Tensor:
    """Returns a block mask for two batches. Row block 0 of the first head of the first batch sees nothing."""
    sizes = (2, HEADS, -(-rows // BLOCK[0]), -(-columns // BLOCK[1]))
    out = torch.rand(sizes, generator=torch.Generator().manual_seed(0)).lt(0.6).to(torch.int8)
    out[0, 0, 0] = 0
    return out


def of_sequence(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes one sequence, [1, heads, rows, n]. ``mask``: [heads, blocks of rows, blocks of columns]."""
    rows, columns = query.shape[2], key.shape[2]
    visible = mask.repeat_interleave(BLOCK[0], 1).repeat_interleave(BLOCK[1], 2)[:, :rows, :columns] != 0
    result, maxima, sums = attention(query, key, value, scale or 1 / math.sqrt(SIZE), visible=visible)
    return result, maxima + sums.log()


def packed(query, key, value, mask, _: Any, scale_value: float = 0.0, **__: Any) -> tuple[torch.Tensor, ...]:
    parts = []
    spans = (starts_and_ends(torch.tensor(of).cumsum(0).tolist()) for of in (QUERIES, KEYS))
    for index, ((a, b), (c, d)) in enumerate(zip(*spans, strict=True)):
        q, k, v = (by_heads(x, "TND", 0) for x in (query[a:b], key[c:d], value[c:d]))
        parts.append(of_sequence(q, k, v, mask[index], scale_value))
    return tuple(torch.cat([from_heads(x, "TND") for x in of]) for of in zip(*parts, strict=True))


PACKED = (
    normal(8, HEADS, SIZE),
    normal(11, KEY_HEADS, SIZE, seed=1),
    normal(11, KEY_HEADS, SIZE, seed=2),
    blocks(5, 7),
    BLOCK,
)
LENGTHS = {
    "lengths": {"actual_seq_lengths": QUERIES, "actual_seq_lengths_kv": KEYS},
    "ends": {"actual_seq_lengths": [3, 8], "actual_seq_lengths_kv": [7, 11]},
}


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_packed_sequences_attend_to_their_blocks(lengths: str, scale: float) -> None:
    extra = {"num_key_value_heads": KEY_HEADS, "scale_value": scale, "softmax_lse_flag": int(scale == 0)}
    compiled = lengths == "ends" and scale == 0
    op, extra = torch_npu.npu_block_sparse_attention, extra | LENGTHS[lengths]
    check(op, PACKED, packed, compiled=compiled, dynamic=False, **extra)


def batched(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
    sizes = ((HEADS, rows), (KEY_HEADS, columns), (KEY_HEADS, columns))
    return tuple(normal(2, heads, n, SIZE, seed=i) for i, (heads, n) in enumerate(sizes))


@pytest.mark.parametrize("layout", ["BNSD", "BSND"])
@pytest.mark.parametrize("with_lengths", [True, False])
def test_batches_attend_to_their_blocks_in_both_layouts(layout: str, with_lengths: bool) -> None:
    query_lengths, key_lengths = (QUERIES, KEYS) if with_lengths else ([5, 5], [7, 7])

    def reference(query, key, value, mask, *_: Any, scale_value: float, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = (by_heads(x, layout, 0) for x in (query, key, value))
        result, lse = torch.zeros_like(q), torch.zeros_like(q[..., :1])
        for i, (a, b) in enumerate(zip(query_lengths, key_lengths, strict=True)):
            one = of_sequence(q[i : i + 1, :, :a], k[i : i + 1, :, :b], v[i : i + 1, :, :b], mask[i], scale_value)
            result[i, :, :a], lse[i, :, :a] = one[0][0], one[1][0]
            lse[i, :, a:] = float("-inf")
        return from_heads(result, layout), lse

    args = tuple(from_heads(x, layout).contiguous() for x in batched(5, 7))
    extra = {"q_input_layout": layout, "kv_input_layout": layout, "num_key_value_heads": KEY_HEADS}
    extra |= {"scale_value": 0.3, "softmax_lse_flag": int(with_lengths)}
    if with_lengths:
        extra |= {"actual_seq_lengths": query_lengths, "actual_seq_lengths_kv": key_lengths}
    dynamic = layout == "BNSD" and not with_lengths
    op = torch_npu.npu_block_sparse_attention
    check(op, (*args, blocks(5, 7), BLOCK), reference, compiled=False, dynamic=dynamic, **extra)


def test_gradients_are_those_of_the_reference() -> None:
    extra = {"num_key_value_heads": KEY_HEADS, "scale_value": 0.3} | LENGTHS["lengths"]
    check_gradient(torch_npu.npu_block_sparse_attention, PACKED, lambda *x, **y: packed(*x, **y)[0], **extra)


def test_the_backward_operator_gives_the_reference_gradients() -> None:
    shared = {"num_key_value_heads": KEY_HEADS, "scale_value": 0.3} | LENGTHS["lengths"]
    result, lse = torch_npu.npu_block_sparse_attention(*PACKED, **shared, softmax_lse_flag=1)

    def reference(gradient, query, key, value, *_: Any) -> tuple[torch.Tensor, ...]:
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        packed(*leaves, *PACKED[3:], **shared)[0].backward(gradient)
        return tuple(x.grad for x in leaves)

    lengths = tuple(LENGTHS["lengths"].values())
    args = (normal(*result.shape, seed=4), *PACKED[:3], result, lse, *PACKED[3:], *lengths)
    check(
        torch_npu.npu_block_sparse_attention_backward, (*args, "TND", "TND", KEY_HEADS, 0.3), reference, dynamic=False
    )


def test_wrong_layouts_sizes_and_lengths_are_refused() -> None:
    name, heads = "npu_block_sparse_attention", {"num_key_value_heads": KEY_HEADS}
    check_refused(name, "layout TND needs the lengths of queries", *PACKED, **heads)
    message = 'q_input_layout is "BSH", allowed are TND, BNSD and BSND'
    check_refused(name, message, *PACKED, **heads, q_input_layout="BSH")
    message = r"block_shape is \[2\], allowed are two numbers above 0, rows of queries and of keys"
    check_refused(name, message, *PACKED[:4], [2], **heads, **LENGTHS["ends"])
    message = (
        r"block_sparse_mask has shape \[2, 4, 2, 3\], and a sequence has 5 rows and 4 columns in blocks of 2 and 3"
    )
    check_refused(name, message, *PACKED[:3], PACKED[3][:, :, :2], BLOCK, **heads, **LENGTHS["ends"])
    message = r"block_sparse_mask has shape \[1, 4, 3, 3\], and there are 2 sequences and 4 heads"
    check_refused(name, message, *PACKED[:3], PACKED[3][:1], BLOCK, **heads, **LENGTHS["ends"])
    message = "actual_seq_lengths has lengths that add up to 9, and there are 8 rows"
    check_refused(name, message, *PACKED, **heads, actual_seq_lengths=[4, 5], actual_seq_lengths_kv=KEYS)
    message = "key has 2 heads, and not 1"
    check_refused(name, message, *PACKED, **LENGTHS["ends"])
