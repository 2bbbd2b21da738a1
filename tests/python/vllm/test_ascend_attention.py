# SPDX-License-Identifier: Apache-2.0
"""Operators of ``_C_ascend`` for attention to chosen keys."""

from __future__ import annotations

from typing import Any

import npugraph_vllm.ascend_c  # noqa: F401
import pytest
import torch
from npugraph_vllm.ascend_operators.definitions import result_count

from tests.python.device.attention.test_npu_lightning_indexer import COUNT, best_of, scores_of
from tests.python.device.attention.test_npu_sparse_attention import ROPE, arranged_choices, choices, of_sequence
from tests.python.device.npu_operators import check
from tests.python.device.sparse_attention_calls import HEADS, KEYS, QUERIES, SCALE, arranged, parts_of, settings

ops = torch.ops._C_ascend
LAYOUT, PAGES = "TND", "PA_BSND"


def test_sparse_flash_attention() -> None:
    queries, latents = parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2)
    ropes = parts_of(HEADS, QUERIES, 4, size=ROPE), parts_of(1, KEYS, 5, size=ROPE)

    def reference(*_: Any, **__: Any) -> Any:
        out = []
        for q, k, qr, kr, c in zip(queries, latents, *ropes, choices(1), strict=True):
            whole = (torch.cat(pair, -1).double() for pair in ((q, qr), (k, kr)))
            out.append(of_sequence(*whole, k.double(), c, 3, 1)[0])
        result = arranged(out, LAYOUT)
        return result if result_count("npu_sparse_flash_attention") == 1 else (result, torch.empty(0), torch.empty(0))

    key = arranged(latents, PAGES)
    args = arranged(queries, LAYOUT), key, key, arranged_choices(choices(1), LAYOUT), SCALE
    extra = {"query_rope": arranged(ropes[0], LAYOUT), "key_rope": arranged(ropes[1], PAGES)}
    extra = settings(LAYOUT, PAGES, ("layout_kv", "actual_seq_lengths_kv"), sparse_mode=3, sparse_block_size=1, **extra)
    check(ops.npu_sparse_flash_attention, args, reference, whole=True, dynamic=False, **extra)


@pytest.mark.parametrize("is_quantised", [True, False])
def test_lightning_indexer(is_quantised: bool) -> None:
    queries, keys, weights = parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2), parts_of(HEADS, QUERIES, 3, size=1)
    scales = [x.abs() for x in parts_of(HEADS, QUERIES, 4, size=1)], [x.abs() for x in parts_of(1, KEYS, 5, size=1)]
    if is_quantised:
        queries, keys = ([(x * 30).to(torch.int8) for x in parts] for parts in (queries, keys))
    else:
        scales = [[torch.ones_like(x) for x in parts] for parts in scales]

    def reference(*_: Any, **__: Any) -> torch.Tensor:
        parts = [
            best_of(scores_of(q.double() * qs, k.double() * ks, w.double(), 3))[0] + 1
            for q, k, w, qs, ks in zip(queries, keys, weights, *scales, strict=True)
        ]
        return arranged(parts, LAYOUT) - 1

    args = [arranged(queries, LAYOUT), arranged(keys, PAGES), arranged(weights, LAYOUT)[..., 0]]
    if is_quantised:
        args += [arranged(scales[0], LAYOUT)[..., 0], arranged(scales[1], PAGES)[..., 0]]
    op = ops.npu_lightning_indexer_quant if is_quantised else ops.npu_lightning_indexer
    extra = settings(LAYOUT, PAGES, ("layout_key", "actual_seq_lengths_key"), sparse_count=COUNT)
    check(op, args, reference, whole=True, dynamic=False, **extra)


TILE, FIRST = 4, 8  # elements that share a scale, elements of a head that are values


def test_attention_to_quantised_keys() -> None:
    queries = [x.bfloat16() for x in parts_of(HEADS, QUERIES, 1, size=FIRST + ROPE)]
    stored = [(x * 20).to(torch.int8) for x in parts_of(1, KEYS, 2, size=FIRST)]
    ropes = [x.bfloat16() for x in parts_of(1, KEYS, 3, size=ROPE)]
    scales = [x.abs() / 10 for x in parts_of(1, KEYS, 4, size=FIRST // TILE)]

    def reference(*_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
        out = []
        for q, x, turned, scale, c in zip(queries, stored, ropes, scales, choices(1), strict=True):
            value = x.double() * scale.double().repeat_interleave(TILE, -1)
            out.append(of_sequence(q.double(), torch.cat([value, turned.double()], -1), value, c, 3, 1)[0])
        return arranged(out, LAYOUT), torch.empty(0), torch.empty(0)

    rows = zip(stored, ropes, scales, strict=True)
    key = arranged([torch.cat([x.contiguous().view(torch.int8) for x in row], -1) for row in rows], PAGES)
    args = arranged(queries, LAYOUT), key, key, arranged_choices(choices(1), LAYOUT), SCALE
    extra = {"key_quant_mode": 2, "value_quant_mode": 2, "tile_size": TILE, "rope_head_dim": ROPE}
    extra = settings(LAYOUT, PAGES, ("layout_kv", "actual_seq_lengths_kv"), **extra)
    check(ops.npu_kv_quant_sparse_flash_attention_vllm, args, reference, whole=True, dynamic=False, **extra)
