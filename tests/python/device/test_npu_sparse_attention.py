# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/sparse_attention.cc."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, by_heads, from_heads, seen, starts_and_ends
from tests.python.device.npu_operators import check, check_refused, normal

HEADS, SIZE, SCALE = 4, 8, 0.3
QUERIES, KEYS = [2, 5], [4, 7]  # rows of each sequence
TABLE = torch.tensor([[3, 0, 4], [1, 5, 2]], dtype=torch.int32)
LAYOUTS = [("BSND", "BSND"), ("TND", "TND"), ("TND", "PA_BSND"), ("BSND", "PA_BSND")]


def arranged(parts: list[torch.Tensor], layout: str) -> torch.Tensor:
    """[1, heads, length, size] of each sequence in a layout."""
    if layout == "TND":
        return from_heads(torch.cat(parts, 2), "TND").contiguous()
    if layout == "BSND":
        longest = max(x.shape[2] for x in parts)
        padded = [torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[2])) for x in parts]
        return torch.cat(padded).transpose(1, 2).contiguous()
    pages = torch.zeros(6, 3, parts[0].shape[1], parts[0].shape[3])
    for sequence, rows in enumerate(parts):
        for row in range(rows.shape[2]):
            pages[TABLE[sequence, row // 3], row % 3] = rows[0, :, row]
    return pages


def lengths(layout: str, of: list[int]) -> torch.Tensor:
    return torch.tensor(of, dtype=torch.int32).cumsum(0) if layout == "TND" else torch.tensor(of, dtype=torch.int32)


def parts_of(heads: int, of: list[int], seed: int, size: int = SIZE) -> list[torch.Tensor]:
    return [normal(1, heads, n, size, seed=seed + n) for n in of]


def of_sequences(x: torch.Tensor, layout: str, of: list[int]) -> list[torch.Tensor]:
    if layout == "TND":
        ends = torch.tensor(of).cumsum(0).tolist()
        return [by_heads(x[a:b], "TND", 0) for a, b in starts_and_ends(ends)]
    return [x[i : i + 1, :n].transpose(1, 2) for i, n in enumerate(of)]


def settings(query: str, key: str, names: tuple[str, str], **extra: Any) -> dict[str, Any]:
    given = {"actual_seq_lengths_query": lengths(query, QUERIES), names[1]: lengths(key, KEYS)}
    given |= {"layout_query": query, names[0]: key}
    return given | ({"block_table": TABLE} if key == "PA_BSND" else {}) | extra


@pytest.mark.parametrize(("query_layout", "key_layout"), LAYOUTS)
@pytest.mark.parametrize("mode", [0, 3])
def test_lightning_indexer(query_layout: str, key_layout: str, mode: int) -> None:
    queries, keys = parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2)
    weights = parts_of(HEADS, QUERIES, 3, size=1)
    count = 5

    def reference(query, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        indices, values = [], []
        for q, k, w in zip(queries, keys, weights, strict=True):
            scores = (torch.relu(q.double() @ k.double().mT) * w.double()).sum(1)
            visible = seen(*scores.shape[-2:], 3) if mode == 3 else torch.ones(scores.shape[-2:], dtype=torch.bool)
            best = torch.full((1, 1, scores.shape[1], count), float("-inf"), dtype=torch.float64)
            chosen = torch.full((1, 1, scores.shape[1], count), -1)
            for row in range(scores.shape[1]):
                known = [(scores[0, row, j].item(), j) for j in range(scores.shape[2]) if visible[row, j]]
                for place, (score, j) in enumerate(sorted(known, reverse=True)[:count]):
                    best[0, 0, row, place], chosen[0, 0, row, place] = score, j
            indices.append(chosen + 1)
            values.append(best)
        return arranged(indices, query_layout) - 1, arranged(values, query_layout)

    args = (arranged(queries, query_layout), arranged(keys, key_layout), arranged(weights, query_layout)[..., 0])
    names = ("layout_key", "actual_seq_lengths_key")
    extra = settings(query_layout, key_layout, names, sparse_count=count, sparse_mode=mode, return_value=True)
    compiled = (query_layout, key_layout, mode) == ("TND", "PA_BSND", 3)
    check(torch_npu.npu_lightning_indexer, args, reference, whole=True, compiled=compiled, **extra)
    assert torch_npu.npu_lightning_indexer(*args, **extra | {"return_value": False})[1].numel() == 0


@pytest.mark.parametrize(("query_layout", "key_layout"), LAYOUTS)
@pytest.mark.parametrize(("mode", "block_size"), [(3, 1), (0, 2)])
def test_sparse_flash_attention(query_layout: str, key_layout: str, mode: int, block_size: int) -> None:
    queries, keys, values = parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2), parts_of(1, KEYS, 3)
    ropes = parts_of(HEADS, QUERIES, 4, size=2), parts_of(1, KEYS, 5, size=2)
    chosen = []
    for rows, columns in zip(QUERIES, KEYS, strict=True):
        blocks = -(-columns // block_size)
        order = [torch.randperm(blocks, generator=torch.Generator().manual_seed(i))[:2] for i in range(rows)]
        chosen.append(torch.nn.functional.pad(torch.stack(order), (0, 1), value=-1)[None, None].float())
    sinks = normal(HEADS, seed=6)

    def reference(*_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        out: tuple[list[torch.Tensor], ...] = ([], [], [])
        for q, k, v, qr, kr, c in zip(queries, keys, values, *ropes, chosen, strict=True):
            rows, columns = q.shape[2], k.shape[2]
            visible = torch.zeros(rows, columns, dtype=torch.bool)
            for row in range(rows):
                for block in c[0, 0, row].int().tolist():
                    if block >= 0:
                        visible[row, block * block_size : (block + 1) * block_size] = True
            if mode == 3:
                visible &= seen(rows, columns, 3)
            q, k, v = torch.cat([q, qr], -1).double(), torch.cat([k, kr], -1).double(), v.double()
            for kept, x in zip(out, attention(q, k, v, SCALE, visible=visible, sink=sinks.double()), strict=True):
                kept.append(x)
        statistics = []
        for x in out[1:]:
            rows = arranged(x, query_layout)[..., 0]  # [B, S, N] or [T, N]
            statistics.append(rows[:, None] if query_layout == "BSND" else rows[None])
        return arranged(out[0], query_layout), *statistics

    args = (arranged(queries, query_layout), arranged(keys, key_layout), arranged(values, key_layout))
    args = (*args, (arranged([x + 1 for x in chosen], query_layout) - 1).int(), SCALE)
    rope = {"query_rope": arranged(ropes[0], query_layout), "key_rope": arranged(ropes[1], key_layout), "sinks": sinks}
    names = ("layout_kv", "actual_seq_lengths_kv")
    extra = settings(query_layout, key_layout, names, sparse_mode=mode, sparse_block_size=block_size, **rope)
    compiled = (query_layout, key_layout, mode) == ("TND", "PA_BSND", 3)
    op = torch_npu.npu_sparse_flash_attention
    check(op, args, reference, whole=True, compiled=compiled, return_softmax_lse=True, **extra)
    assert [x.numel() for x in op(*args, **extra)[1:]] == [0, 0]


def test_errors() -> None:
    query, key, weights = normal(1, 2, HEADS, SIZE), normal(1, 3, 1, SIZE), normal(1, 2, HEADS)
    name = "npu_lightning_indexer"
    check_refused(name, 'layout_query is "BNSD", allowed are BSND and TND', query, key, weights, layout_query="BNSD")
    check_refused(name, "sparse_mode is 2, allowed are 0 and 3", query, key, weights, sparse_mode=2)
    packed = {"layout_query": "TND", "layout_key": "TND"}
    check_refused(name, "layout TND needs the lengths of queries", query[0], key[0], weights[0], **packed)
    check_refused(name, "layout PA_BSND needs the lengths of keys", query, key, weights, layout_key="PA_BSND")
