# SPDX-License-Identifier: Apache-2.0
"""Attention for inference: src/device/npu_ops/attention/fused_infer_*.cc, stored_rows.cc."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, by_heads, from_heads, seen, starts_and_ends
from tests.python.device.npu_operators import (
    FLOATING,
    check,
    check_alike,
    check_close,
    check_fake,
    check_refused,
    integers,
    normal,
)

LAYOUTS = ("BSH", "BSND", "BNSD")
SCALE = 0.3
HEADS, KEY_HEADS, SIZE = 4, 2, 8


def sequences(x: torch.Tensor, ends: list[int]) -> list[torch.Tensor]:
    """Returns the sequences in packed rows [1, heads, rows, size]."""
    return [x[:, :, start:end] for start, end in starts_and_ends(ends)]


def infer(
    query, key, value, *, pse_shift=None, atten_mask=None, actual_seq_lengths=None, actual_seq_lengths_kv=None,
    query_rope=None, key_rope=None, num_heads=1, scale=1.0, pre_tokens=2**31 - 1, next_tokens=2**31 - 1,
    input_layout="BSH", num_key_value_heads=0, sparse_mode=0, softmax_lse_flag=False, learnable_sink=None, **kwargs,
):  # fmt: skip
    first, _, last = input_layout.partition("_")
    packed = "T" in first
    key_heads = num_key_value_heads or num_heads
    q = by_heads(query, first, num_heads)
    k, v = by_heads(key, first, key_heads), by_heads(value, first, key_heads)
    if query_rope is not None:
        q = torch.cat([q, by_heads(query_rope, first, num_heads)], -1)
        k = torch.cat([k, by_heads(key_rope, first, key_heads)], -1)
    batches, rows, columns = len(actual_seq_lengths) if packed else q.shape[0], q.shape[2], k.shape[2]
    if packed:
        qs, ks, vs = (
            sequences(x, ends)
            for x, ends in zip((q, k, v), (actual_seq_lengths, *[actual_seq_lengths_kv] * 2), strict=True)
        )
    else:
        query_lengths = actual_seq_lengths or [rows]
        key_lengths = actual_seq_lengths_kv or [columns]
        query_lengths = query_lengths * batches if len(query_lengths) == 1 else query_lengths
        key_lengths = key_lengths * batches if len(key_lengths) == 1 else key_lengths
        qs = [q[i : i + 1, :, :n] for i, n in enumerate(query_lengths)]
        ks, vs = ([x[i : i + 1, :, :n] for i, n in enumerate(key_lengths)] for x in (k, v))
    results, lses = [], []
    for i, (q1, k1, v1) in enumerate(zip(qs, ks, vs, strict=True)):
        m, n = q1.shape[2], k1.shape[2]
        visible = bias = None
        if sparse_mode > 1:
            visible = seen(m, n, sparse_mode, pre_tokens, next_tokens)
        elif atten_mask is not None:
            mask = atten_mask.view(-1, *atten_mask.shape[-2:])
            visible = ~mask[i % len(mask), :m, :n].bool()
            if sparse_mode == 0:
                visible &= seen(m, n, 0, pre_tokens, next_tokens)
        if pse_shift is not None:
            bias = pse_shift[i % len(pse_shift) :][:1, :, :m, :n]
        result, maxima, sums = attention(q1, k1, v1, scale, bias=bias, visible=visible, sink=learnable_sink)
        pad = (0, 0, 0, 0 if packed else rows - m)
        results.append(torch.nn.functional.pad(result, pad))
        lses.append(torch.nn.functional.pad(maxima + sums.log(), pad))
    result = from_heads(torch.cat(results, 2 if packed else 0), last or first)
    if not softmax_lse_flag:
        return result, torch.empty(0)
    return result, from_heads(torch.cat(lses, 2), "TND") if packed else torch.cat(lses)


def inputs(layout: str, rows: int = 5, columns: int = 7, dtype=torch.float32, seed: int = 0, size: int = SIZE):
    def one(n: int, length: int, seed: int) -> torch.Tensor:
        return from_heads(normal(2, n, length, size, dtype=dtype, seed=seed), layout).contiguous()

    return one(HEADS, rows, seed + 1), one(KEY_HEADS, columns, seed + 2), one(KEY_HEADS, columns, seed + 3)


def given(layout: str, **kwargs: Any) -> dict[str, Any]:
    names = {"num_heads": HEADS, "num_key_value_heads": KEY_HEADS, "scale": SCALE, "input_layout": layout}
    return names | kwargs


check_infer = functools.partial(check, torch_npu.npu_fused_infer_attention_score)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_is_that_of_the_reference_in_every_layout(layout: str) -> None:
    check_infer(inputs(layout), infer, compiled=layout == "BSH", **given(layout))


@pytest.mark.parametrize("layout", ["BNSD_BSND", "BSND_BNSD", "BSH_BNSD", "BNSD_NBSD"])
def test_layouts_of_results(layout: str) -> None:
    first = layout.partition("_")[0]
    check_infer(inputs(first), infer, compiled=False, **given(layout, softmax_lse_flag=True))


@pytest.mark.parametrize("dtype", FLOATING)
def test_attention_is_that_of_the_reference_in_every_type(dtype: torch.dtype) -> None:
    check_infer(inputs("BNSD", dtype=dtype), infer, compiled=False, **given("BNSD", softmax_lse_flag=True))


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (6, 4), (1, 7)])
@pytest.mark.parametrize("mode", [2, 3, 4])
def test_sparse_modes(mode: int, rows: int, columns: int, lse: bool) -> None:
    extra: dict[str, Any] = {"atten_mask": torch.ones(2048, 2048, dtype=torch.bool).triu(1), "softmax_lse_flag": lse}
    if mode == 4:
        extra |= {"pre_tokens": 2, "next_tokens": 1}

    def reference(*args: Any, **kwargs: Any) -> Any:
        # A single query row sees all keys in every mode.
        return infer(*args, **kwargs) if rows > 1 else infer(*args, **kwargs | {"sparse_mode": 0, "atten_mask": None})

    args = inputs("BSND", rows, columns)
    check_infer(args, reference, compiled=False, dynamic=lse, **given("BSND", sparse_mode=mode, **extra))


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("shape", [(5, 7), (1, 5, 7), (2, 5, 7), (2, 1, 5, 7)])
def test_masks_of_every_shape_are_applied(mode: int, shape: tuple[int, ...]) -> None:
    mask = (normal(*shape) > 0.5).to(torch.int8)
    extra = {"atten_mask": mask, "sparse_mode": mode, "pre_tokens": 3, "next_tokens": 2}
    check_infer(inputs("BNSD"), infer, compiled=False, dynamic=False, **given("BNSD", **extra))


def test_masks_of_one_row() -> None:
    mask = normal(2, 7) > 0.5
    check_infer(
        inputs("BNSD", rows=1),
        lambda *args, atten_mask, **kwargs: infer(*args, atten_mask=atten_mask[:, None], **kwargs),
        **given("BNSD", atten_mask=mask),
        compiled=False,
    )


def test_position_shifts_are_added_to_the_scores() -> None:
    for shape in ((2, HEADS, 5, 7), (1, HEADS, 5, 7)):
        check_infer(inputs("BNSD"), infer, compiled=False, **given("BNSD", pse_shift=normal(*shape, seed=5)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", [([5, 2], [3, 7]), (None, [0, 4]), ([3], [6]), ([4, 1], None)])
def test_keys_beyond_the_lengths_are_not_seen(layout: str, lengths: tuple[list[int] | None, list[int] | None]) -> None:
    extra = {"actual_seq_lengths": lengths[0], "actual_seq_lengths_kv": lengths[1], "sparse_mode": 3}
    compiled = layout == "BSH" and lengths[0] == [5, 2]
    check_infer(inputs(layout), infer, whole=True, compiled=compiled, **given(layout, softmax_lse_flag=True, **extra))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", [[7, 1], [3], [0, 2]])
def test_lengths_of_one_query_say_no_more_than_that_it_is_there(layout: str, lengths: list[int]) -> None:
    args, extra = inputs(layout, rows=1), given(layout, actual_seq_lengths=lengths, actual_seq_lengths_kv=[3, 6])
    compiled = layout == "BSH" and len(lengths) == 1
    check_infer(args, infer, whole=True, compiled=compiled, softmax_lse_flag=True, **extra)
    check(torch_npu.npu_fused_infer_attention_score_v2, args, infer_v2, compiled=False, **renamed(extra))
    more = extra | {"actual_seq_lengths": [3]}
    message = "the lengths of queries has 3, allowed are 0 to 2"
    check_refused("npu_fused_infer_attention_score", message, *inputs(layout, rows=2), **more)


QUERY_ENDS, KEY_ENDS = [3, 3, 9], [4, 9, 14]


@pytest.mark.parametrize("layout", ["TND", "NTD", "NTD_TND", "TND_NTD"])
@pytest.mark.parametrize("mode", [0, 3, 4])
def test_packed_sequences_do_not_see_each_other(layout: str, mode: int) -> None:
    first = layout.partition("_")[0]
    args = [from_heads(normal(1, n, t, SIZE, seed=t), first) for n, t in ((HEADS, 9), (KEY_HEADS, 14), (KEY_HEADS, 14))]
    extra = {"actual_seq_lengths": QUERY_ENDS, "actual_seq_lengths_kv": KEY_ENDS, "sparse_mode": mode}
    if mode == 4:
        extra |= {"pre_tokens": 2, "next_tokens": 0}
    compiled = layout == "TND" and mode == 3
    check_infer(args, infer, whole=True, compiled=compiled, **given(layout, softmax_lse_flag=mode == 3, **extra))


def paged(rows: torch.Tensor, lengths: list[int], block_size: int, form: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a cache that holds ``rows`` [batches, heads, rows, size] in blocks of random order, and its block
    table."""
    batches, heads, longest, size = rows.shape
    per_batch = -(-longest // block_size)
    order = torch.randperm(batches * per_batch + 2, generator=torch.Generator().manual_seed(5))
    table = order[: batches * per_batch].view(batches, per_batch).to(torch.int32)
    cache = (
        normal(len(order), block_size, heads, size, seed=17)
        if rows.is_floating_point()
        else integers(-9, 9, len(order), block_size, heads, size).to(rows.dtype)
    )
    for batch, length in enumerate(lengths):
        for row in range(length):
            cache[table[batch, row // block_size], row % block_size] = rows[batch, :, row]
    if form == "BnBsH":
        cache = cache.flatten(2)
    elif form == "BnNBsD":
        cache = cache.transpose(1, 2)
    elif form == "NZ":
        cache = cache.view(*cache.shape[:3], size // 4, 4).permute(0, 2, 3, 1, 4)
    return cache.contiguous(), table


@pytest.mark.parametrize("form", ["BnBsH", "BnNBsD", "NZ"])
@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_keys_are_read_from_pages_of_every_form(form: str, layout: str) -> None:
    lengths = [7, 0, 5] if layout == "TND" else [7, 5]
    query = normal(9, HEADS, SIZE) if layout == "TND" else normal(2, 3, HEADS, SIZE)
    rows = [normal(len(lengths), KEY_HEADS, 7, SIZE, seed=seed) for seed in (1, 2)]
    (key, table), (value, _) = (paged(x, lengths, 2, form) for x in rows)
    ends = {"actual_seq_lengths": QUERY_ENDS} if layout == "TND" else {}

    def reference(query, key, value, *, block_table, block_size, actual_seq_lengths_kv, **kwargs):
        parts = [[x[i : i + 1, :, :n] for i, n in enumerate(lengths)] for x in exact_rows]
        if layout == "TND":
            key_ends = torch.tensor(lengths).cumsum(0).tolist()
            packed = [from_heads(torch.cat(x, 2), "TND") for x in parts]
            return infer(query, *packed, actual_seq_lengths_kv=key_ends, **kwargs)
        return infer(query, *(from_heads(x, "BSND") for x in exact_rows), actual_seq_lengths_kv=lengths, **kwargs)

    exact_rows = [x.double() for x in rows]
    extra = {"block_table": table, "block_size": 2, "actual_seq_lengths_kv": lengths, "sparse_mode": 3}
    check_infer(
        (query, key, value), reference, whole=True, compiled=(layout, form) == ("TND", "BnBsH"),
        **given(layout, softmax_lse_flag=True, **extra, **ends),
    )  # fmt: skip


def test_tokens_of_lengths_that_are_symbols() -> None:
    query, key, value = (x.npu() for x in inputs("BNSD"))

    @functools.partial(torch.compile, backend="npugraph_ex", fullgraph=True, dynamic=True)
    def run(query: torch.Tensor, shorter: torch.Tensor) -> torch.Tensor:
        lengths = [shorter.shape[0], 7]
        return torch_npu.npu_fused_infer_attention_score(
            query, key, value, actual_seq_lengths_kv=lengths, **given("BNSD")
        )[0]

    with torch.no_grad():
        for length in (3, 5, 6):
            want = infer(query.cpu(), key.cpu(), value.cpu(), actual_seq_lengths_kv=[length, 7], **given("BNSD"))[0]
            check_close(run(query, torch.empty(length).npu()).cpu(), want)


def test_rotary_parts_are_added_to_the_scores() -> None:
    args = normal(9, HEADS, 16), normal(14, 1, 16, seed=1), normal(14, 1, 12, seed=2)
    ropes = {"query_rope": normal(9, HEADS, 4, seed=3), "key_rope": normal(14, 1, 4, seed=4)}
    ends = {"actual_seq_lengths": QUERY_ENDS, "actual_seq_lengths_kv": KEY_ENDS}
    extra = given("TND", sparse_mode=3, **ends, **ropes) | {"num_key_value_heads": 1}
    check_infer(args, infer, whole=True, compiled=False, **extra)


def dequantised(x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None) -> torch.Tensor:
    return (x.double() + (0 if offset is None else offset.double())) * scale.double()


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("lengths", [None, [6, 4]])
def test_quantised_keys(mode: int, lengths: list[int] | None) -> None:
    shapes = {0: (1, KEY_HEADS, 1, SIZE), 1: (2, 1, 7, 1), 2: (1, KEY_HEADS, 1, 1), 3: (2, KEY_HEADS, 7, 1)}
    given_shapes = {0: (KEY_HEADS * SIZE,), 1: (2, 7), 2: (KEY_HEADS,), 3: (2, KEY_HEADS, 7)}
    query = inputs("BNSD")[0]
    key, value = (integers(-9, 9, 2, KEY_HEADS, 7, SIZE, dtype=torch.int8, seed=seed) for seed in (1, 2))
    scales = [normal(*shapes[mode], seed=seed) for seed in (3, 4)]
    offset = normal(*shapes[mode], seed=5)
    extra = {
        "key_antiquant_scale": scales[0].reshape(given_shapes[mode]),
        "key_antiquant_offset": offset.reshape(given_shapes[mode]),
        "value_antiquant_scale": scales[1].reshape(given_shapes[mode]),
        "key_antiquant_mode": mode,
        "value_antiquant_mode": mode,
        "actual_seq_lengths_kv": lengths,
    }

    def reference(query, key, value, **kwargs):
        return infer(query, dequantised(key, scales[0], offset), dequantised(value, scales[1], None), **kwargs)

    check_infer((query, key, value), reference, compiled=False, dynamic=False, **given("BNSD", **extra))


def test_quantised_keys_in_one_tensor_of_scales() -> None:
    query = inputs("BSH")[0]
    key, value = (integers(-9, 9, 2, 7, KEY_HEADS * SIZE, dtype=torch.int8, seed=seed) for seed in (1, 2))
    scales, offsets = normal(2, KEY_HEADS * SIZE, seed=3), normal(2, KEY_HEADS * SIZE, seed=4)

    def reference(query, key, value, **kwargs):
        return infer(query, *(dequantised(x, scales[i], offsets[i]) for i, x in enumerate((key, value))), **kwargs)

    extra = {"antiquant_scale": scales, "antiquant_offset": offsets}
    check_infer((query, key, value), reference, compiled=False, **given("BSH", **extra))


GROUPS, BLOCK = 2, 2  # groups of elements in a row, rows in a block


@pytest.mark.parametrize("mode", [6, 7])
def test_quantised_groups_and_blocks(mode: int) -> None:
    query = inputs("BNSD")[0]
    key, value = (normal(2, KEY_HEADS, 7, SIZE, seed=seed).to(torch.float8_e4m3fn) for seed in (1, 2))
    shape = (2, KEY_HEADS, 7, GROUPS) if mode == 6 else (2, KEY_HEADS, 4, 1)
    scales = [normal(*shape, seed=seed) for seed in (3, 4)]

    def numbers(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        along, count = (3, SIZE // GROUPS) if mode == 6 else (2, BLOCK)
        return x.double() * scale.double().repeat_interleave(count, along)[:, :, :7]

    extra = {"key_antiquant_scale": scales[0], "value_antiquant_scale": scales[1]}
    extra |= {"key_antiquant_mode": mode, "value_antiquant_mode": mode, "actual_seq_lengths_kv": [7, 4]}

    def reference(query, key, value, **kwargs):
        return infer(query, numbers(key, scales[0]), numbers(value, scales[1]), **kwargs)

    check_infer((query, key, value), reference, compiled=False, dynamic=False, **given("BNSD", **extra))


def words(values: torch.Tensor) -> torch.Tensor:
    """Packs values in [-8, 7] along the last dimension: eight to an int32, the first in the lowest bits."""
    return sum((values[..., i::8].int() & 15) << 4 * i for i in range(8)).int()


@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
def test_keys_in_int4(layout: str) -> None:
    query = inputs(layout, size=16)[0]
    key, value = (integers(-8, 8, 2, KEY_HEADS, 7, 16, seed=seed) for seed in (1, 2))
    scales = [normal(KEY_HEADS, 1, 16, seed=seed) for seed in (3, 4)]
    stored = [words(from_heads(x, layout)) for x in (key, value)]
    names = ("key_antiquant_scale", "value_antiquant_scale")
    extra = dict(zip(names, (x.flatten() for x in scales), strict=True))

    def reference(query, _, __, **kwargs):
        return infer(
            query, *(from_heads(x * s.double(), layout) for x, s in zip((key, value), scales, strict=True)), **kwargs
        )

    check_infer((query, *stored), reference, compiled=layout == "BSH", **given(layout, **extra))


@pytest.mark.parametrize("form", ["BnBsH", "BnNBsD", "NZ"])
def test_pages_in_int4(form: str) -> None:
    lengths, query = [7, 5], normal(2, HEADS, 1, 32)
    rows = [integers(-8, 8, 2, KEY_HEADS, 7, 32, dtype=torch.int32, seed=seed) for seed in (1, 2)]
    (key, table), (value, _) = (paged(words(x), lengths, 2, form) for x in rows)
    scale = normal(1, seed=3)
    extra = {"block_table": table, "block_size": 2, "actual_seq_lengths_kv": lengths}
    scales = {"key_antiquant_scale": scale, "value_antiquant_scale": scale}
    got = torch_npu.npu_fused_infer_attention_score(query, key, value, **given("BNSD", **extra, **scales))
    exact = [x * scale.double() for x in rows]
    check_close(got, infer(query.double(), *exact, **given("BNSD", actual_seq_lengths_kv=lengths)))


@pytest.mark.parametrize("mode", [0, 1, 3, 4, 5])
def test_quantised_pages(mode: int) -> None:
    lengths = [7, 5]
    key, value = (integers(-9, 9, 2, KEY_HEADS, 7, SIZE, dtype=torch.int8, seed=seed) for seed in (1, 2))
    heads = KEY_HEADS if mode == 5 else 1
    scale = normal(1, KEY_HEADS, 1, SIZE) if mode == 0 else normal(2, heads, 7, 1, seed=3)
    if mode == 3:
        scale = normal(2, KEY_HEADS, 7, 1, seed=3)
    paged_scale = {
        0: lambda: scale.flatten(),
        1: lambda: scale[:, 0, :, 0],
        3: lambda: scale[..., 0],
        4: lambda: paged(scale, lengths, 2, "")[0][:, :, 0, 0],
        5: lambda: paged(scale, lengths, 2, "BnNBsD")[0][..., 0],
    }[mode]().contiguous()
    (pages, table), (value_pages, _) = (paged(x, lengths, 2, "BnBsH") for x in (key, value))
    query = normal(2, HEADS, 1, SIZE)
    extra = {
        f"{name}_antiquant_{what}": x
        for name in ("key", "value")
        for what, x in (("scale", paged_scale), ("mode", mode))
    }
    extra |= {"block_table": table, "block_size": 2, "actual_seq_lengths_kv": lengths}
    got = torch_npu.npu_fused_infer_attention_score(query, pages, value_pages, **given("BNSD", **extra))
    want = infer(
        query.double(), dequantised(key, scale, None), dequantised(value, scale, None),
        **given("BNSD", actual_seq_lengths_kv=lengths),
    )  # fmt: skip
    check_close(got, want)


def test_results_in_int8() -> None:
    scale, offset = normal(HEADS * SIZE, seed=7) * 20, normal(HEADS * SIZE, seed=8) * 30

    def reference(*args: Any, quant_scale2: torch.Tensor, quant_offset2: torch.Tensor, **kwargs: Any) -> Any:
        result, lse = infer(*args, **kwargs)
        return (result * quant_scale2 + quant_offset2).round().clamp(-128, 127), lse

    extra = {"quant_scale2": scale, "quant_offset2": offset}
    check_infer(inputs("BSH", dtype=torch.float16), reference, compiled=False, **given("BSH", **extra))


def test_named_types() -> None:
    query, key, value = inputs("BNSD")
    extra = renamed(given("BNSD"))
    run = torch_npu.npu_fused_infer_attention_score_v2
    plain = run(query, key, value, **extra)[0]
    assert torch.equal(plain, run(query, key, value, **extra, key_dtype=torch.float32, query_dtype=torch.float32)[0])
    stored = words(integers(-8, 8, 2, KEY_HEADS, 7, SIZE))
    assert run(query, stored, value, **extra, key_dtype=torch_npu.int4)[0].shape == plain.shape
    with pytest.raises(RuntimeError, match="key_dtype is Float8_e5m2, and key is of type Char"):
        run(query, key.char(), value, **extra, key_dtype=torch.float8_e5m2)


def test_results_in_float8() -> None:
    args, extra = inputs("BNSD"), renamed(given("BNSD")) | {"quant_scale_out": torch.tensor([3.0])}
    got, _ = torch_npu.npu_fused_infer_attention_score_v2(*args, **extra, out_dtype=torch.float8_e4m3fn)
    assert got.dtype == torch.float8_e4m3fn
    check_close(got, infer(*(x.double() for x in args), **given("BNSD"))[0] * 3)
    with pytest.raises(
        RuntimeError, match="out_dtype is Half, allowed are int8, uint8, int32, int4, float8_e4m3fn, float8_e5m2 and"
    ):
        torch_npu.npu_fused_infer_attention_score_v2(*args, **extra, out_dtype=torch.float16)


def test_queries_in_int8() -> None:
    args = [integers(-9, 9, 2, n, 7, SIZE, dtype=torch.int8, seed=n) for n in (HEADS, KEY_HEADS, KEY_HEADS)]
    factors = {
        "dequant_scale1": torch.tensor([0.02]),
        "quant_scale1": torch.tensor([100.0]),
        "dequant_scale2": torch.tensor([0.003]),
    }

    def reference(query, key, value, *, dequant_scale1, quant_scale1, dequant_scale2, **kwargs):
        return infer(query * dequant_scale1, key.double(), value * quant_scale1 * dequant_scale2, **kwargs)

    check_infer(args, reference, compiled=False, **given("BNSD", **factors))
    assert torch_npu.npu_fused_infer_attention_score(*args, **given("BNSD"))[0].dtype == torch.float16


def test_a_shared_prefix_stands_before_all_keys() -> None:
    prefix = [normal(1, KEY_HEADS, 4, SIZE, seed=seed) for seed in (8, 9)]

    def reference(query, key, value, *, key_shared_prefix, value_shared_prefix, actual_shared_prefix_len, **kwargs):
        pairs = ((key, key_shared_prefix), (value, value_shared_prefix))
        both = (torch.cat([x[:, :, :3].expand(2, -1, -1, -1), rows], 2) for rows, x in pairs)
        return infer(query, *both, **kwargs)

    extra = {"key_shared_prefix": prefix[0], "value_shared_prefix": prefix[1], "actual_shared_prefix_len": [3]}
    check_infer(inputs("BNSD"), reference, whole=True, compiled=False, **given("BNSD", **extra))


def test_quantised_prefixes() -> None:
    query = inputs("BNSD")[0]
    rows, prefix = (
        [integers(-9, 9, n, KEY_HEADS, 5, SIZE, dtype=torch.int8, seed=n + i) for i in (1, 2)] for n in (2, 1)
    )
    scales = [normal(KEY_HEADS, 1, SIZE, seed=seed) for seed in (3, 4)]
    names = ("key_antiquant_scale", "value_antiquant_scale")
    extra = dict(zip(names, (x.flatten() for x in scales), strict=True))
    extra |= {"key_shared_prefix": prefix[0], "value_shared_prefix": prefix[1]}
    both = [
        torch.cat([p.expand(2, -1, -1, -1), x], 2) * scale.double()
        for p, x, scale in zip(prefix, rows, scales, strict=True)
    ]
    got = torch_npu.npu_fused_infer_attention_score(query, *rows, **given("BNSD", **extra))
    check_close(got, infer(query.double(), *both, **given("BNSD")))


def test_rows_at_the_end() -> None:
    query, key, value = inputs("BNSD", rows=1)
    got = torch_npu.npu_fused_infer_attention_score(
        query, key, value, actual_seq_lengths_kv=[3, 5], kv_padding_size=torch.tensor([1]), **given("BNSD")
    )
    for i, n in enumerate((3, 5)):
        rows = slice(6 - n, 6)
        want = infer(query[i : i + 1], key[i : i + 1, :, rows], value[i : i + 1, :, rows], **given("BNSD"))
        check_close(got[0][i : i + 1], want[0])


def renamed(kwargs: dict[str, Any]) -> dict[str, Any]:
    names = {
        "num_heads": "num_query_heads", "scale": "softmax_scale", "softmax_lse_flag": "return_softmax_lse",
        "actual_seq_lengths": "actual_seq_qlen", "actual_seq_lengths_kv": "actual_seq_kvlen",
    }  # fmt: skip
    return {names.get(name, name): value for name, value in kwargs.items()}


def infer_v2(*args: Any, **kwargs: Any) -> Any:
    names = {
        new: old for old, new in zip(given("", softmax_lse_flag=0), renamed(given("", softmax_lse_flag=0)), strict=True)
    }
    names |= {"actual_seq_qlen": "actual_seq_lengths", "actual_seq_kvlen": "actual_seq_lengths_kv"}
    return infer(*args, **{names.get(name, name): value for name, value in kwargs.items()})


@pytest.mark.parametrize("lse", [False, True])
def test_version_2(lse: bool) -> None:
    extra = renamed(given("BSND", softmax_lse_flag=lse, sparse_mode=3, learnable_sink=normal(HEADS, seed=7)))
    op = torch_npu.npu_fused_infer_attention_score_v2
    check(op, inputs("BSND"), infer_v2, compiled=lse, **extra)
    ends = {"actual_seq_qlen": [5, 2], "actual_seq_kvlen": [3, 7]}
    check(op, inputs("BSND"), infer_v2, compiled=False, whole=True, **extra, **ends)


def test_version_2_with_quantised_queries() -> None:
    query, key, value = (
        integers(-9, 9, 2, n, 7, SIZE, dtype=torch.int8, seed=n) for n in (HEADS, KEY_HEADS, KEY_HEADS)
    )
    scales = normal(2, HEADS, 7, seed=1), normal(1, seed=2), normal(1, seed=3)
    names = ("dequant_scale_query", "dequant_scale_key", "dequant_scale_value")
    extra = renamed(given("BNSD")) | {"query_quant_mode": 3, "out_dtype": 15} | dict(zip(names, scales, strict=True))

    def reference(query, key, value, **kwargs):
        return infer_v2(
            query * scales[0].double()[..., None], key * scales[1].double(), value * scales[2].double(), **kwargs
        )

    check(torch_npu.npu_fused_infer_attention_score_v2, (query, key, value), reference, compiled=False, **extra)


def test_version_2_in_float8() -> None:
    """Each scale belongs to a block of rows."""
    args = [normal(2, n, 7, SIZE, seed=n).to(torch.float8_e4m3fn) for n in (HEADS, KEY_HEADS, KEY_HEADS)]
    scales = [normal(2, x.shape[1], 4, 1, seed=5 + i) for i, x in enumerate(args)]
    names = ("dequant_scale_query", "dequant_scale_key", "dequant_scale_value")
    modes = dict.fromkeys(("query_quant_mode", "key_quant_mode", "value_quant_mode"), 7)
    extra = renamed(given("BNSD")) | modes | dict(zip(names, scales, strict=True))
    got, _ = torch_npu.npu_fused_infer_attention_score_v2(*args, **extra)
    assert got.dtype == torch.float16
    exact = [
        x.double() * scale.double().repeat_interleave(BLOCK, 2)[:, :, :7] for x, scale in zip(args, scales, strict=True)
    ]
    check_close(got, infer(*exact, **given("BNSD"))[0])


@pytest.mark.parametrize(
    ("op", "get_workspace", "infer_output"),
    [
        (
            torch_npu.npu_fused_infer_attention_score,
            torch_npu._npu_fused_infer_attention_score_get_max_workspace,
            torch_npu._npu_fused_infer_attention_score_infer_output,
        ),
        (
            torch_npu.npu_fused_infer_attention_score_v2,
            torch_npu._npu_fused_infer_attention_score_v2_get_max_workspace,
            torch_npu._npu_fused_infer_attention_score_v2_infer_output,
        ),
    ],
    ids=["first", "v2"],
)
def test_into_out(op: Any, get_workspace: Any, infer_output: Any) -> None:
    args = [x.npu() for x in inputs("BNSD")]
    extra = given("BNSD", softmax_lse_flag=True, actual_seq_lengths_kv=[3, 6])
    is_second = op is torch_npu.npu_fused_infer_attention_score_v2
    extra = renamed(extra) if is_second else extra
    want = op(*args, **extra)
    workspace = get_workspace(*args, **extra)
    assert workspace.dim() == 1 and workspace.device == args[0].device
    out = [torch.empty_like(x) for x in want]
    got = op.out(*args, **extra, workspace=workspace, out=out)
    for g, o, w in zip(got, out, want, strict=True):
        assert g.data_ptr() == o.data_ptr() and torch.equal(o, w)
    del extra["softmax_scale" if is_second else "scale"]
    empty = {name: value for name, value in extra.items() if not name.startswith("actual")}
    made = infer_output(args[0], args[2], **empty)
    check_alike((made, args, {}), (want, args, {}))
    for dynamic in (False, True):
        check_fake(infer_output, (args[0], args[2]), empty, made, dynamic=dynamic)


def test_prompt_attention_is_that_of_the_reference() -> None:
    mask = torch.zeros(5, 7, dtype=torch.bool)
    extra = given("BSH", atten_mask=mask)
    extra["scale_value"] = extra.pop("scale")

    def reference(*args: Any, scale_value: float, next_tokens: int = 0, **kwargs: Any) -> Any:
        return infer(*args, scale=scale_value, next_tokens=next_tokens, **kwargs)[0]

    check(torch_npu.npu_prompt_flash_attention, inputs("BSH"), reference, compiled=False, **extra)
    lengths = {"actual_seq_lengths": [2, 5], "actual_seq_lengths_kv": [7, 3]}
    check(
        torch_npu.npu_prompt_flash_attention, inputs("BSH"), reference, whole=True, compiled=False, **extra, **lengths
    )


def test_incremental_attention_is_that_of_the_reference() -> None:
    extra = given("BSH")
    extra["scale_value"] = extra.pop("scale")

    def reference(*args: Any, scale_value: float, actual_seq_lengths: Any, **kwargs: Any) -> Any:
        return infer(*args, scale=scale_value, actual_seq_lengths_kv=actual_seq_lengths, **kwargs)[0]

    args = inputs("BSH", rows=1)
    check(torch_npu.npu_incre_flash_attention, args, reference, whole=True, actual_seq_lengths=[4, 6], **extra)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 3}, "the number of heads is 3, and query has 4"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, allowed are 0 and divisors of the number of heads, 4"),
        ({"num_key_value_heads": 4}, "key has 2 heads, and not 4"),
        ({"sparse_mode": 5}, "sparse_mode is 5, allowed are 0 to 4"),
        ({"actual_seq_lengths_kv": [8, 1]}, "the lengths of keys has 8, allowed are 0 to 7"),
        ({"actual_seq_lengths": [1, 2, 3]}, "the lengths of queries has 3 lengths, allowed are 1 and 2"),
        ({"query_rope": normal(2, 4, 5, 2)}, "query_rope and key_rope go together"),
        (
            {"key_antiquant_scale": normal(1), "key_antiquant_mode": 4},
            "mode of quantisation of key is 4, allowed are 0 to 3, 6 and 7, and 4 and 5 with block_table",
        ),
        (
            {"key_antiquant_scale": normal(2, 2, 3), "key_antiquant_mode": 7},
            r"the scale of key has shape \[2, 2, 3\], allowed is \(2, 2, blocks of rows, 1\)",
        ),
        ({"input_layout": "BNDS"}, 'the layout is "BNDS"'),
        ({"value": normal(2, 2, 7, SIZE).half()}, "value is of type Half, allowed are Float, which query is, and"),
    ],
)
def test_wrong_arguments_are_refused_on_both_devices(change: dict[str, Any], message: str) -> None:
    for device in ("cpu", "npu"):
        args = dict(zip(("query", "key", "value"), inputs("BNSD"), strict=True)) | given("BNSD") | change
        moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
        with pytest.raises(RuntimeError, match=f"npu_fused_infer_attention_score: .*{message}"):
            torch_npu.npu_fused_infer_attention_score(**moved)


def test_errors_of_pages() -> None:
    query, (cache, table) = normal(2, HEADS, 1, SIZE), paged(normal(2, KEY_HEADS, 7, SIZE), [7, 7], 2, "BnBsH")
    with pytest.raises(RuntimeError, match="block_table needs the lengths of keys"):
        torch_npu.npu_fused_infer_attention_score(query, cache, cache, block_table=table, **given("BNSD"))
    modes = {"key_antiquant_scale": normal(1), "key_antiquant_mode": 7, "actual_seq_lengths_kv": [7, 7]}
    with pytest.raises(RuntimeError, match="of key is 7, allowed with block_table are 0 to 5"):
        torch_npu.npu_fused_infer_attention_score(query, cache, cache, block_table=table, **given("BNSD"), **modes)
    with pytest.raises(RuntimeError, match="layouts with T need the lengths of queries"):
        torch_npu.npu_fused_infer_attention_score(
            *[normal(9, HEADS, SIZE)] * 3, **given("TND") | {"num_key_value_heads": 4}
        )
