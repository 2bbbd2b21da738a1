# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/sparse_attention/sparse_attention.cc, and the gradient of attention to chosen
keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, seen
from tests.python.device.npu_operators import check, check_fake, check_gradient, check_refused, integers, normal
from tests.python.device.sparse_attention_calls import (
    HEADS,
    KEYS,
    LAYOUTS,
    QUERIES,
    SCALE,
    SIZE,
    arranged,
    lengths,
    of_sequences,
    parts_of,
    settings,
    slow,
)

ROPE = 2


def choices(block_size: int) -> list[torch.Tensor]:
    """Returns chosen blocks for each row of each sequence, [1, 1, rows, 3]. The last one is -1, which is no block."""
    out = []
    for rows, columns in zip(QUERIES, KEYS, strict=True):
        blocks = -(-columns // block_size)
        order = [torch.randperm(blocks, generator=torch.Generator().manual_seed(i))[:2] for i in range(rows)]
        out.append(torch.nn.functional.pad(torch.stack(order), (0, 1), value=-1)[None, None].int())
    return out


def arranged_choices(parts: list[torch.Tensor], layout: str) -> torch.Tensor:
    return arranged([x + 1 for x in parts], layout) - 1


def of_sequence(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, chosen: torch.Tensor, mode: int, block_size: int, sink=None
):
    """Returns result, maxima and sums, [1, heads, rows, n]."""
    rows, columns = q.shape[2], k.shape[2]
    visible = torch.zeros(rows, columns, dtype=torch.bool)
    for row in range(rows):
        for block in chosen[0, 0, row].tolist():
            if block >= 0:
                visible[row, block * block_size : (block + 1) * block_size] = True
    if mode == 3:
        visible &= seen(rows, columns, 3)
    return attention(q, k, v, SCALE, visible=visible, sink=sink)


@pytest.mark.parametrize(("query_layout", "key_layout"), LAYOUTS)
@pytest.mark.parametrize(("mode", "block_size"), [(3, 1), (0, 2)])
def test_sparse_flash_attention(query_layout: str, key_layout: str, mode: int, block_size: int) -> None:
    queries, keys, values = parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2), parts_of(1, KEYS, 3)
    ropes = parts_of(HEADS, QUERIES, 4, size=ROPE), parts_of(1, KEYS, 5, size=ROPE)
    chosen, sinks = choices(block_size), normal(HEADS, seed=6)

    def reference(*_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        out: tuple[list[torch.Tensor], ...] = ([], [], [])
        for q, k, v, qr, kr, c in zip(queries, keys, values, *ropes, chosen, strict=True):
            q, k = torch.cat([q, qr], -1).double(), torch.cat([k, kr], -1).double()
            for kept, x in zip(out, of_sequence(q, k, v.double(), c, mode, block_size, sinks.double()), strict=True):
                kept.append(x)
        statistics = []
        for x in out[1:]:
            rows = arranged(x, query_layout)[..., 0]  # [B, S, N] or [T, N]
            statistics.append(rows[:, None] if query_layout == "BSND" else rows[None])
        return arranged(out[0], query_layout), *statistics

    args = (arranged(queries, query_layout), arranged(keys, key_layout), arranged(values, key_layout))
    args = (*args, arranged_choices(chosen, query_layout), SCALE)
    rope = {"query_rope": arranged(ropes[0], query_layout), "key_rope": arranged(ropes[1], key_layout), "sinks": sinks}
    names = ("layout_kv", "actual_seq_lengths_kv")
    extra = settings(query_layout, key_layout, names, sparse_mode=mode, sparse_block_size=block_size, **rope)
    compiled = (query_layout, key_layout, mode) == ("TND", "PA_BSND", 3)
    op = torch_npu.npu_sparse_flash_attention
    check(op, args, reference, whole=True, compiled=compiled, return_softmax_lse=True, **extra)
    assert [x.numel() for x in op(*args, **extra)[1:]] == [0, 0]


def arguments(layout: str, with_value: bool, with_rope: bool) -> list[torch.Tensor | None]:
    """Returns query, key, value, query_rope and key_rope."""
    given = (parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2), parts_of(1, KEYS, 3) if with_value else None)
    ropes = (parts_of(HEADS, QUERIES, 4, size=ROPE), parts_of(1, KEYS, 5, size=ROPE)) if with_rope else (None, None)
    return [None if x is None else arranged(x, layout) for x in (*given, *ropes)]


def result_of(layout: str, mode: int, block_size: int, query, key, value, query_rope, key_rope) -> torch.Tensor:
    query = query if query_rope is None else torch.cat([query, query_rope], -1)
    value = key if value is None else value
    key = key if key_rope is None else torch.cat([key, key_rope], -1)
    parts = of_sequences(query, layout, QUERIES), *(of_sequences(x, layout, KEYS) for x in (key, value))
    out = [of_sequence(*x, mode, block_size)[0] for x in zip(*parts, choices(block_size), strict=True)]
    return arranged(out, layout)


@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize(("with_value", "with_rope"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize(("mode", "block_size"), [(3, 1), (0, 2)])
def test_sparse_flash_attention_grad(
    layout: str, with_value: bool, with_rope: bool, mode: int, block_size: int
) -> None:
    given = arguments(layout, with_value, with_rope)
    chosen = arranged_choices(choices(block_size), layout)
    rope = {"query_rope": given[3], "key_rope": given[4]}
    extra = {"sparse_mode": mode, "sparse_block_size": block_size, "return_softmax_lse": True} | rope
    extra = settings(layout, layout, ("layout_kv", "actual_seq_lengths_kv"), **extra)
    saved = torch_npu.npu_sparse_flash_attention(*given[:3], chosen, SCALE, **extra)
    gradient = normal(*saved[0].shape, seed=7)

    def reference(query, key, value, indices, gradient, *rest: Any, query_rope, key_rope, **_: Any) -> list[Any]:
        given = [x if x is None else x.detach().requires_grad_() for x in (query, key, value, query_rope, key_rope)]
        result_of(layout, mode, block_size, *given).backward(gradient)
        return [torch.empty(0) if x is None else x.grad for x in given]

    args = (*given[:3], chosen, gradient, *saved, SCALE, block_size)
    sizes = {"actual_seq_qlen": lengths(layout, QUERIES), "actual_seq_kvlen": lengths(layout, KEYS)}
    checks = slow(layout == "TND" and with_value and mode == 3)
    op = torch_npu.npu_sparse_flash_attention_grad
    check(op, args, reference, whole=True, layout=layout, sparse_mode=mode, **checks, **sizes, **rope)


def test_batches_of_one_length() -> None:
    """Without lengths nothing is read on the host, and compiled graphs see the operators inside."""
    query, key, value = normal(2, 3, HEADS, SIZE), normal(2, 5, 2, SIZE, seed=1), normal(2, 5, 2, SIZE, seed=2)
    chosen = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(i))[:3] for i in range(6)])
    chosen = chosen.view(2, 3, 1, 3).int()

    def reference(query, key, value, chosen, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
        heads = (x.transpose(1, 2)[:, None] for x in (query, key, value, chosen))
        parts = [of_sequence(*x, 3, 1) for x in zip(*heads, strict=True)]
        result, *statistics = (torch.cat(x).transpose(1, 2) for x in zip(*parts, strict=True))
        return result, *(x.unflatten(2, (2, -1)).squeeze(-1).transpose(1, 2) for x in statistics)

    args = (query, key, value, chosen, SCALE)
    check(torch_npu.npu_sparse_flash_attention, args, reference, return_softmax_lse=True)
    saved = torch_npu.npu_sparse_flash_attention(*args, return_softmax_lse=True)
    gradient = normal(*saved[0].shape, seed=7)

    def of_gradient(query, key, value, chosen, gradient, *_: Any) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        reference(*leaves, chosen)[0].backward(gradient)
        return [*(x.grad for x in leaves), torch.empty(0), torch.empty(0)]

    args = (query, key, value, chosen, gradient, *saved, SCALE, 1)
    check(torch_npu.npu_sparse_flash_attention_grad, args, of_gradient)


def test_gradients_are_those_of_the_reference() -> None:
    given, extra = arguments("TND", True, True), settings("TND", "TND", ("layout_kv", "actual_seq_lengths_kv"))
    chosen = arranged_choices(choices(1), "TND")

    def op(query, key, value, query_rope, key_rope) -> torch.Tensor:
        rope = {"query_rope": query_rope, "key_rope": key_rope}
        on_device = {name: x.to(query.device) if isinstance(x, torch.Tensor) else x for name, x in extra.items()}
        indices = chosen.to(query.device)
        return torch_npu.npu_sparse_flash_attention(query, key, value, indices, SCALE, **on_device, **rope)[0]

    check_gradient(op, given, lambda *x: result_of("TND", 3, 1, *x))


TILE, FIRST = 4, 8  # elements that share a scale, elements of a head that are values


def as_bytes(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(torch.int8)


@pytest.mark.parametrize("key_layout", ["TND", "PA_BSND"])
@pytest.mark.parametrize("type", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kv_quant_sparse_flash_attention(key_layout: str, type: torch.dtype, dtype: torch.dtype) -> None:
    first = FIRST if key_layout == "TND" else FIRST - 2  # the last tile may be shorter
    queries = [x.to(dtype) for x in parts_of(HEADS, QUERIES, 1, size=first + ROPE)]
    stored = [(x * 20).to(type) for x in parts_of(1, KEYS, 2, size=first)]
    ropes = [x.to(dtype) for x in parts_of(1, KEYS, 3, size=ROPE)]
    scales = [x.abs() / 10 for x in parts_of(1, KEYS, 4, size=FIRST // TILE)]
    rows = [torch.cat([as_bytes(x) for x in of], -1) for of in zip(stored, ropes, scales, strict=True)]
    chosen = choices(1)

    def reference(*_: Any, **__: Any) -> torch.Tensor:
        out = []
        for q, x, rope, scale, c in zip(queries, stored, ropes, scales, chosen, strict=True):
            value = x.double() * scale.double().repeat_interleave(TILE, -1)[..., :first]
            out.append(of_sequence(q.double(), torch.cat([value, rope.double()], -1), value, c, 3, 1)[0])
        return arranged(out, "TND")

    query, key = arranged(queries, "TND"), arranged(rows, key_layout)
    rest = (arranged_choices(chosen, "TND"), SCALE, 2, 2)
    extra = settings("TND", key_layout, ("layout_kv", "actual_seq_lengths_kv"), tile_size=TILE, rope_head_dim=ROPE)
    checks = slow(key_layout == "PA_BSND" and dtype == torch.bfloat16 and type == torch.int8)
    op = torch_npu.npu_kv_quant_sparse_flash_attention
    types = {} if type == torch.int8 else {"key_dtype": type, "value_dtype": type}
    check(op, (query, key, key, *rest), reference, whole=True, **checks, **types, **extra)
    known = key.view(type)
    assert torch.equal(op(query, known, known, *rest, **extra), op(query, key, key, *rest, **types, **extra))


def test_rows_of_372_bytes() -> None:
    """236 values, 64 more in bfloat16, and two scales."""
    query, chosen = normal(1, 2, HEADS, 300).bfloat16(), torch.zeros(1, 2, 1, 1, dtype=torch.int32)
    row = torch.cat(
        [as_bytes(x) for x in (integers(-9, 9, 236).char(), normal(64).bfloat16(), torch.tensor([0.5, 2.0]))]
    )
    key = row.expand(1, 3, 1, 372).contiguous()
    op, args = torch_npu.npu_kv_quant_sparse_flash_attention, (query, key, key, chosen, SCALE, 2, 2)
    result = op(*args)
    want = row[:236].float() * torch.cat([torch.full((128,), 0.5), torch.full((108,), 2.0)])
    assert result.shape == (1, 2, HEADS, 236)
    torch.testing.assert_close(result.float(), want.expand_as(result), rtol=1e-2, atol=1e-2)
    check_fake(op, args, {}, result, dynamic=False)
    message = r"rows of keys have 371 bytes, allowed are 372 for heads of 300: 236, 128 for rope_head_dim, and 8 for"
    check_refused("npu_kv_quant_sparse_flash_attention", message, query, key[..., 1:], key, chosen, SCALE, 2, 2)


def test_wrong_modes_layouts_and_sizes_are_refused() -> None:
    query, key, chosen = normal(1, 2, HEADS, SIZE), normal(1, 3, 1, SIZE), torch.zeros(1, 2, 1, 1, dtype=torch.int32)
    name, args = "npu_sparse_flash_attention_grad", (query, key, None, chosen, query, query)
    message = (
        r"softmax_max has shape \[1, 2, 4\], allowed are \[B, key heads, S, heads of each\], and without B where the "
        r"layout is TND, of 1 batches, 4 heads and 2 rows"
    )
    check_refused(name, message, *args, query[..., 0], query[..., 0], SCALE, 1)
    check_refused(name, 'layout is "BNSD", allowed are BSND and TND', *args, query, query, SCALE, 1, layout="BNSD")
    check_refused(name, "query_rope and key_rope go together", *args, query, query, SCALE, 1, query_rope=query)
    name, args = "npu_kv_quant_sparse_flash_attention", (query, key.to(torch.int8), key, chosen, SCALE)
    check_refused(name, r"key_quant_mode is 1, allowed are \[2\]", *args, 1, 2)
    check_refused(name, r"value_quant_mode is 0, allowed are \[2\]", *args, 2, 0)
    check_refused(name, r"quant_scale_repo_mode is 0, allowed are \[1\]", *args, 2, 2, quant_scale_repo_mode=0)
    check_refused(name, "value is of type Float, allowed are Char, Float8_e4m3fn, Float8_e5m2", *args, 2, 2)
