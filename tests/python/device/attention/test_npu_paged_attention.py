# SPDX-License-Identifier: Apache-2.0
"""Attention of the atb namespace: src/device/npu_ops/attention/paged_attention.cc, packed_attention.cc."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, seen, starts_and_ends
from tests.python.device.npu_operators import FLOATING, check, check_close, exact, integers, normal

HEADS, KEY_HEADS, SIZE, BLOCK = 4, 2, 8, 3
SCALE = 0.3
TABLE = torch.tensor([[5, 0, 3], [2, 6, 1], [4, 7, 8]], dtype=torch.int32)
CONTEXT = [7, 2, 9]
ROWS = [2, 1, 4]


def cache(heads: int = KEY_HEADS, size: int = SIZE, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return normal(9, BLOCK, heads, size, seed=seed, dtype=dtype)


def rows_of(cache: torch.Tensor, sequence: int, length: int) -> torch.Tensor:
    """Returns the cached rows of a sequence, [1, heads, length, size]."""
    rows = [cache[TABLE[sequence, row // BLOCK], row % BLOCK] for row in range(length)]
    return torch.stack(rows, 1)[None]


def by_sequences(
    query: torch.Tensor, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor], lengths: Sequence[int],
    scale: float,
    visible: Any = lambda rows, columns: None, bias: Any = lambda index, rows, columns: None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Computes attention for packed queries [T, heads, size]. Returns results and logarithms of sums, [T, heads, 1]."""
    results, lses = [], []
    ends = torch.tensor(lengths).cumsum(0).tolist()
    for index, (start, end) in enumerate(starts_and_ends(ends)):
        q = query[start:end].transpose(0, 1)[None]
        rows, columns = end - start, keys[index].shape[2]
        given = {"visible": visible(rows, columns), "bias": bias(index, rows, columns)}
        result, maxima, sums = attention(q, keys[index], values[index], scale, **given)
        results.append(result[0].transpose(0, 1))
        lses.append((maxima + sums.log())[0].transpose(0, 1))
    return torch.cat(results), torch.cat(lses)


def paged(query, key_cache, value_cache, lengths=None, context=CONTEXT, **kwargs):
    keys, values = ([rows_of(x, i, n) for i, n in enumerate(context)] for x in (key_cache, value_cache))
    return by_sequences(query, keys, values, lengths or [1] * len(context), SCALE, **kwargs)[0]


def causal(rows: int, columns: int) -> torch.Tensor:
    return seen(rows, columns, 3)


def writing(compute: Any) -> Any:
    """Returns a reference that writes its result to ``out``."""

    def reference(*args: Any, out: torch.Tensor, **_: Any) -> None:
        out.copy_(compute(*args).view_as(out))

    return reference


check_atb = functools.partial(check, whole=True, dynamic=True)


@pytest.mark.parametrize("dtype", FLOATING)
def test_paged_attention(dtype: torch.dtype) -> None:
    args = (
        normal(3, HEADS, SIZE, dtype=dtype),
        cache(dtype=dtype),
        cache(seed=2, dtype=dtype),
        KEY_HEADS,
        HEADS,
        SCALE,
    )
    out = torch.zeros(3, HEADS, SIZE, dtype=dtype)
    reference = writing(lambda q, k, v, *_: paged(q, k, v))
    compiled = dtype == torch.float32
    check_atb(
        torch_npu._npu_paged_attention, (*args, TABLE, torch.tensor(CONTEXT)), reference, compiled=compiled, out=out
    )
    workspace = torch_npu._npu_paged_attention_get_workspace(*args, TABLE, torch.tensor(CONTEXT), out=out)
    assert workspace.dim() == 1
    torch_npu._npu_paged_attention(*args, TABLE, torch.tensor(CONTEXT), out=out, workspace=workspace)


def test_lengths_are_on_the_host() -> None:
    args = [normal(3, HEADS, SIZE), cache(), cache(seed=2)]
    on_npu = [x.npu() for x in args]
    context, table = torch.tensor(CONTEXT, dtype=torch.int32), TABLE.npu()

    def call(query, key, value, table, context, out):
        torch_npu._npu_paged_attention(query, key, value, KEY_HEADS, HEADS, SCALE, table, context, out)
        return out + 0

    for run in (call, torch.compile(call, backend="npugraph_ex", fullgraph=True)):
        out = torch.zeros(3, HEADS, SIZE).npu()
        with torch.no_grad():
            got = run(*on_npu, table, context, out)
        check_close(got.cpu(), paged(*args))
        check_close(out.cpu(), paged(*args))


def test_paged_attention_v2() -> None:
    query, key, value = normal(3, HEADS, SIZE), cache(), cache(seed=2)
    names = {"value_cache": value, "num_kv_heads": KEY_HEADS, "num_heads": HEADS, "scale_value": SCALE}
    out = torch.zeros(3, HEADS, SIZE)
    got = torch.ops.atb._npu_paged_attention_v2.out(query, key, TABLE, CONTEXT, **names, out=out)
    assert got is out
    check_close(out, paged(query, key, value))


def test_quantised_cache() -> None:
    key, value = (integers(-9, 9, 9, BLOCK, KEY_HEADS, SIZE, dtype=torch.int8, seed=seed) for seed in (1, 2))
    scales = [normal(KEY_HEADS * SIZE, seed=seed) for seed in (3, 4)]
    query, out = normal(3, HEADS, SIZE), torch.zeros(3, HEADS, SIZE)
    torch_npu._npu_paged_attention_quant(
        query, key, value, KEY_HEADS, HEADS, SCALE, TABLE, torch.tensor(CONTEXT), 1, 0, *scales, out
    )
    read = (x * scale.view(KEY_HEADS, SIZE) for x, scale in zip((key, value), scales, strict=True))
    check_close(out, paged(query, *read))


def test_quantised_cache_by_heads() -> None:
    """quant_type 3: the query is in int8, too, and each of its heads has a factor of products and one of results."""
    query = integers(-9, 9, 3, HEADS, SIZE, dtype=torch.int8)
    key, value = (integers(-9, 9, 9, BLOCK, KEY_HEADS, SIZE, dtype=torch.int8, seed=seed) for seed in (1, 2))
    scales = [normal(HEADS, seed=seed) / 9 for seed in (3, 4)]

    def reference(query, key, value, *rest):
        of_products, of_results, out = rest[-3:]
        products = query.double() * of_products[:, None], key.double(), value.double()
        out.copy_(paged(*products) * of_results[:, None])

    args = (query, key, value, KEY_HEADS, HEADS, SCALE, TABLE, torch.tensor(CONTEXT), 3, 1, *scales)
    out = torch.zeros(3, HEADS, SIZE, dtype=torch.float16)
    check_atb(torch_npu._npu_paged_attention_quant, (*args, out), reference, compiled=False)


def in_pieces(cache: torch.Tensor, n: int = 4) -> torch.Tensor:
    """Returns ``cache`` in the layout NZ, with pieces of ``n`` elements."""
    return cache.flatten(2).unflatten(2, (-1, n)).transpose(1, 2).contiguous()


def test_caches_in_pieces() -> None:
    query, key, value = normal(3, HEADS, SIZE), cache(), cache(size=12, seed=2)
    args = (query, in_pieces(key), in_pieces(value), KEY_HEADS, HEADS, SCALE, TABLE, torch.tensor(CONTEXT))
    reference = writing(lambda q, *_: paged(q, key.double(), value.double()))
    check_atb(torch_npu._npu_paged_attention, args, reference, compiled=False, out=torch.zeros(3, HEADS, 12))
    both, out = cache(1, LATENT + ROPE), torch.zeros(3, HEADS, LATENT)
    query = normal(3, HEADS, LATENT + ROPE)
    context = torch.tensor(CONTEXT)
    torch_npu._npu_paged_attention_mla(query, in_pieces(both), 1, HEADS, SCALE, TABLE, context, LATENT, out)
    check_close(out, paged(query, both, both[..., :LATENT]))
    with pytest.raises(RuntimeError, match="10 elements of each head of key_cache are no whole pieces of 4"):
        torch_npu._npu_paged_attention_mla(query, in_pieces(both), 1, HEADS, SCALE, TABLE, context, 10, out)


MASKS = ("by rows", "by positions", "sample", "true where it drops")


def mask_of(kind: str) -> torch.Tensor:
    """Returns a mask of causal attention for ROWS rows at the end of CONTEXT rows, in one of several forms."""
    square = torch.zeros(9, 9).masked_fill(torch.ones(9, 9).triu(1).bool(), -10000.0)
    if kind == "by positions":
        return square
    if kind == "true where it drops":
        return square < 0
    if kind == "as many positions as queries":
        return square[:7, :7]
    if kind == "sample":
        return torch.ones(2, 2).triu(1)
    return torch.cat([square[n - rows : n] for rows, n in zip(ROWS, CONTEXT, strict=True)])


@pytest.mark.parametrize("kind", MASKS)
def test_mixed_lengths(kind: str) -> None:
    args = (
        normal(7, HEADS, SIZE),
        cache(),
        cache(seed=2),
        TABLE,
        torch.tensor(CONTEXT),
        mask_of(kind),
        torch.tensor(ROWS),
    )
    reference = writing(lambda q, k, v, *_: paged(q, k, v, ROWS, visible=causal))
    given = (*args, KEY_HEADS, HEADS, SCALE)
    compiled = kind == "by rows"
    out = torch.zeros(7, HEADS, SIZE)
    check_atb(torch_npu._npu_paged_attention_splitfuse, given, reference, compiled=compiled, out=out)
    query, key, value, table, context, mask, rows = args
    given = (query, key, value, table, mask, rows, context, KEY_HEADS, HEADS, SCALE)
    check_atb(torch_npu._npu_flash_attention_qlens, given, reference, compiled=False, out=out)


def test_values_of_masks_are_added() -> None:
    bias = -normal(7, 9, seed=5).abs()
    starts = [0, 2, 3]

    def added(index: int, rows: int, columns: int) -> torch.Tensor:
        return bias[starts[index] :][:rows, :columns].double()

    args = (normal(7, HEADS, SIZE), cache(), cache(seed=2), TABLE, torch.tensor(CONTEXT), bias, torch.tensor(ROWS))
    reference = writing(lambda q, k, v, *_: paged(q, k, v, ROWS, bias=added))
    given = (*args, KEY_HEADS, HEADS, SCALE)
    out = torch.zeros(7, HEADS, SIZE)
    check_atb(torch_npu._npu_paged_attention_splitfuse, given, reference, compiled=False, out=out)


def test_prefix_with_slopes() -> None:
    slopes = normal(HEADS, seed=6).abs()

    def alibi(index: int, rows: int, columns: int) -> torch.Tensor:
        far = torch.arange(columns) - torch.arange(columns - rows, columns)[:, None]
        return slopes.view(1, -1, 1, 1).double() * far

    query, key, value, mask = normal(7, HEADS, SIZE), cache(), cache(seed=2), mask_of("sample")
    names = {"slopes": slopes, "num_kv_heads": KEY_HEADS, "num_heads": HEADS, "scale_value": SCALE}
    out = torch.zeros(7, HEADS, SIZE)
    torch.ops.atb._npu_flash_attention_prefix_v2.out(query, key, value, TABLE, mask, ROWS, CONTEXT, **names, out=out)
    check_close(out, paged(*exact((query, key, value)), ROWS, visible=causal, bias=alibi))
    flat, again = (key.flatten(2), value.flatten(2)), torch.zeros(7, HEADS, SIZE)  # caches of three dimensions
    torch.ops.atb._npu_flash_attention_prefix_v2.out(query, *flat, TABLE, mask, ROWS, CONTEXT, **names, out=again)
    assert torch.equal(again, out)


def test_prefix_encoder() -> None:
    args = (normal(7, HEADS, SIZE), cache(), cache(seed=2), TABLE, ROWS, CONTEXT, HEADS, SCALE, KEY_HEADS)
    reference = functools.partial(lambda q, k, v, *_, **__: paged(q, k, v, ROWS, visible=causal))
    op = torch_npu.npu_self_attention_prefix_encoder
    check_atb(op, args, reference, mask=mask_of("by positions"))
    output = torch.zeros(7, HEADS, SIZE)
    check_atb(
        op.out, args, lambda *args, output, **_: output.copy_(reference(*args)), compiled=False, dynamic=False,
        mask=mask_of("by positions"), output=output,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["by positions", "as many positions as queries", "sample", "slopes", None])
def test_packed_rows_v2(kind: str | None) -> None:
    """Lengths are ints. All arguments but the tensors of rows and the lengths are passed by name."""
    args = normal(7, HEADS, SIZE), normal(7, KEY_HEADS, SIZE, seed=1), normal(7, KEY_HEADS, SIZE, seed=2), ROWS
    slopes = normal(HEADS, seed=6).abs()

    def alibi(index: int, rows: int, columns: int) -> torch.Tensor | None:
        far = torch.arange(columns) - torch.arange(rows)[:, None]
        return slopes.view(1, -1, 1, 1).double() * far if kind == "slopes" else None

    def reference(query, key, value, lengths, *, out, **_):
        parts = [[x[a:b].transpose(0, 1)[None] for a, b in starts_and_ends([2, 3, 7])] for x in (key, value)]
        visible = causal if kind else lambda rows, columns: None
        return out.copy_(by_sequences(query, *parts, lengths, SCALE, visible=visible, bias=alibi)[0])

    given = {"num_heads": HEADS, "num_kv_heads": KEY_HEADS, "scale_value": SCALE, "out": torch.zeros(7, HEADS, SIZE)}
    how = {} if kind is None else {"slopes": slopes} if kind == "slopes" else {"mask": mask_of(kind)}
    how |= {"mask_type": {"sample": 3, "slopes": 4, None: 0}.get(kind, 1)}
    op = torch_npu.atb._npu_flash_attention_v2.out
    check_atb(op, args, reference, compiled=kind == "sample", **given, **how)
    if kind == "slopes":
        for mask in (mask_of("sample"), torch.zeros(2, 9, 4)):  # compressed: they say what slopes and mask_type say
            check_close(op(*args, **given, **how, mask=mask), reference(*exact(args), **exact(given)))


@pytest.mark.parametrize("masked", [True, False])
def test_packed_rows(masked: bool) -> None:
    query, key, value = normal(7, HEADS * SIZE), normal(7, KEY_HEADS, SIZE, seed=1), normal(7, KEY_HEADS, SIZE, seed=2)

    def compute(query, key, value, *_):
        parts = [[x[a:b].transpose(0, 1)[None] for a, b in starts_and_ends([2, 3, 7])] for x in (key, value)]
        visible = causal if masked else lambda rows, columns: None
        return by_sequences(query.view(7, HEADS, SIZE), *parts, ROWS, SCALE, visible=visible)[0]

    rest = (torch.tensor(ROWS), SCALE, HEADS, KEY_HEADS)
    out = torch.zeros(7, HEADS * SIZE)
    if masked:
        args = (query, key, value, mask_of("by positions"), *rest)
        check_atb(torch_npu._npu_flash_attention, args, writing(compute), compiled=False, out=out)
    else:
        check_atb(torch_npu._npu_flash_attention_unpad, (query, key, value, *rest), writing(compute), out=out)


LATENT, ROPE = 12, 4


def test_latent_cache() -> None:
    both = cache(1, LATENT + ROPE)
    args = (normal(3, HEADS, LATENT + ROPE), both, 1, HEADS, SCALE, TABLE, torch.tensor(CONTEXT), LATENT)
    out = torch.zeros(3, HEADS, LATENT)
    reference = writing(lambda q, c, *_: paged(q, c, c[..., :LATENT]))
    check_atb(torch_npu._npu_paged_attention_mla, args, reference, compiled=False, out=out)


def latent(q_nope, q_rope, ctkv, k_rope, *_: Any, qseqlen: Any = None, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    query, key = torch.cat([q_nope, q_rope], -1), torch.cat([ctkv, k_rope], -1)
    keys, values = ([rows_of(x, i, n) for i, n in enumerate(CONTEXT)] for x in (key, ctkv))
    return by_sequences(query, keys, values, qseqlen or [1, 1, 1], SCALE)


@pytest.mark.parametrize("lengths", [None, ROWS])
def test_multi_head_latent_attention(lengths: list[int] | None) -> None:
    rows = sum(lengths or [1, 1, 1])
    args = (normal(rows, HEADS, LATENT), normal(rows, HEADS, ROPE, seed=1), cache(1, LATENT), cache(1, ROPE, seed=2))
    args = (*args, TABLE, CONTEXT, HEADS, SCALE, 1)
    op = torch_npu.npu_multi_head_latent_attention
    check_atb(op, args, lambda *a, **k: latent(*a, **k)[0], compiled=lengths is None, qseqlen=lengths)
    check_atb(op, (*args, True), latent, compiled=lengths is None, qseqlen=lengths)
    output, lse = torch.zeros(rows, HEADS, LATENT), torch.zeros(rows, HEADS, 1)
    got = op.out(*args, qseqlen=lengths, output=output)
    assert got is output
    check_close(output, latent(*args, qseqlen=lengths)[0])
    op.lse_out(*args, True, qseqlen=lengths, output=output, lse=lse)
    check_close((output, lse), latent(*args, qseqlen=lengths))


@pytest.mark.parametrize("dtype", FLOATING)
def test_sums_of_latent_attention_are_of_the_type_of_the_result(dtype: torch.dtype) -> None:
    args = (normal(3, HEADS, LATENT, dtype=dtype), normal(3, HEADS, ROPE, seed=1, dtype=dtype))
    args = (*args, cache(1, LATENT, dtype=dtype), cache(1, ROPE, seed=2, dtype=dtype), TABLE, CONTEXT, HEADS, SCALE, 1)
    op = torch_npu.atb.npu_multi_head_latent_attention
    check_atb(op, (*args, True), latent, compiled=dtype == torch.bfloat16)
    assert [x.dtype for x in op(*args, True)] == [dtype, dtype]
    assert [(x.dtype, x.shape) for x in op(*args, False)][1] == (dtype, (0, HEADS, 1))


def test_latent_caches_in_pieces() -> None:
    args = (normal(3, HEADS, LATENT), normal(3, HEADS, ROPE, seed=1), cache(1, LATENT), cache(1, ROPE, seed=2))
    stored = (*args[:2], *(in_pieces(x) for x in args[2:]), TABLE, CONTEXT, HEADS, SCALE, 1)

    def reference(q_nope, q_rope, *_: Any, **__: Any) -> torch.Tensor:
        return latent(q_nope, q_rope, *(x.double() for x in args[2:]))[0]

    op = torch_npu.npu_multi_head_latent_attention
    check_atb(op, stored, reference, compiled=False, cache_mode="nzcache")


def test_latent_caches_in_int8() -> None:
    query = integers(-9, 9, 3, HEADS, LATENT, dtype=torch.int8)
    latents = integers(-9, 9, 9, BLOCK, 1, LATENT, dtype=torch.int8, seed=1)
    q_rope, k_rope = normal(3, HEADS, ROPE, seed=1), cache(1, ROPE, seed=2)
    scales = {"qk_descale": normal(HEADS, seed=3) / 9, "pv_descale": normal(HEADS, seed=4) / 9}
    args = (query, q_rope, in_pieces(latents), in_pieces(k_rope), TABLE, CONTEXT, HEADS, SCALE, 1)

    def reference(q_nope, q_rope, *_: Any, qk_descale, pv_descale, **__: Any) -> torch.Tensor:
        read = q_nope.double() * qk_descale[:, None], q_rope, latents.double(), k_rope.double()
        return latent(*read)[0] * pv_descale[:, None]

    op = torch_npu.npu_multi_head_latent_attention
    check_atb(op, args, reference, compiled=False, cache_mode="int8_nzcache", **scales)
    with pytest.raises(RuntimeError, match="qk_descale is needed where q_nope is of type Char"):
        op(*args, cache_mode="int8_nzcache")


def test_two_ring_calls_compute_what_one_would() -> None:
    """Two calls attend to two parts of the keys, the first of them to those of the queries themselves. Together they
    compute what one call computes for all keys."""
    q_nope, q_rope = normal(7, HEADS, SIZE), normal(7, HEADS, ROPE, seed=1)
    new = normal(7, KEY_HEADS, SIZE, seed=2), normal(7, KEY_HEADS, ROPE, seed=3), normal(7, KEY_HEADS, SIZE, seed=4)
    old = normal(9, KEY_HEADS, SIZE, seed=5), normal(9, KEY_HEADS, ROPE, seed=6), normal(9, KEY_HEADS, SIZE, seed=7)
    mask = torch.ones(16, 16).triu(1)
    rows, earlier = torch.tensor(ROWS, dtype=torch.int32), torch.tensor([4, 0, 5], dtype=torch.int32)
    given = {"qk_scale": SCALE, "kernel_type": "kernel_type_high_precision", "input_layout": "type_bsnd"}
    first = {"mask_type": "mask_type_triu", "calc_type": "calc_type_first_ring"}
    result, lse = torch_npu.npu_ring_mla(q_nope, q_rope, *new, mask, rows, HEADS, KEY_HEADS, **given, **first)
    assert lse.shape == (HEADS, 7) and lse.dtype == torch.float32

    def merged(q_nope, q_rope, k_nope, k_rope, value, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values, visible = [], [], []
        old_ends, new_ends = starts_and_ends([4, 4, 9]), starts_and_ends([2, 3, 7])
        parts = (torch.cat([k_nope, k_rope], -1), torch.cat([new[0], new[1]], -1).double()), (value, new[2].double())
        for (a, b), (c, d) in zip(old_ends, new_ends, strict=True):
            for out, (before, after) in zip((keys, values), parts, strict=True):
                out.append(torch.cat([before[a:b], after[c:d]]).transpose(0, 1)[None])
        visible = causal
        query = torch.cat([q_nope, q_rope], -1)
        result, lse = by_sequences(query, keys, values, ROWS, SCALE, visible=visible)
        return result, lse[..., 0].t()

    args = (q_nope, q_rope, *old, mask, torch.stack([rows, earlier]), HEADS, KEY_HEADS)
    later = {"pre_out": result, "prev_lse": lse, "mask_type": "no_mask", "calc_type": "calc_type_default"}
    check_atb(torch_npu.npu_ring_mla, args, merged, **given, **later)
    output, softmax_lse = torch.zeros_like(result), torch.zeros_like(lse)
    torch_npu.npu_ring_mla.out(*args, **given, **later, output=output, softmax_lse=softmax_lse)
    check_close((output, softmax_lse), merged(*(x.double() for x in args[:5])))


@pytest.mark.parametrize("cumsum", [False, True])
def test_rows_are_loaded_from_the_pages_of_sequences(cumsum: bool) -> None:
    key, value = cache(), cache(size=5, seed=2)
    lengths = [2, 0, 4]
    given = torch.tensor([0, 2, 2, 6] if cumsum else lengths)
    starts = torch.tensor([4, 0, 1])  # in blocks 1, 0 and 0
    got = torch_npu.npu_paged_cache_load(key, value, TABLE, given, seq_starts=starts, cumsum=cumsum)
    whole_blocks = [s // BLOCK * BLOCK for s in starts.tolist()]
    for g, x in zip(got, (key, value), strict=True):
        rows = [
            rows_of(x, i, s + n)[0, :, s:].transpose(0, 1)
            for i, (s, n) in enumerate(zip(whole_blocks, lengths, strict=True))
            if n
        ]
        assert torch.equal(g, torch.cat(rows))


def test_load_refused() -> None:
    given = cache(), cache(1, 5, seed=2), TABLE, torch.tensor([2, 0, 4])
    with pytest.raises(RuntimeError, match="seq_starts has 1 elements, and context_lens says 3 lengths"):
        torch_npu.npu_paged_cache_load(*given, seq_starts=torch.tensor([3]))


@pytest.mark.parametrize("rows", [6, 8])
def test_load_into_out(rows: int) -> None:
    """Rows of the outputs behind the last sequence keep their values."""
    args = cache(), cache(1, 5, seed=2), TABLE, torch.tensor([2, 0, 4])
    out = {"key": torch.ones(rows, KEY_HEADS, SIZE), "value": torch.ones(rows, 1, 5)}

    def reference(key_cache, value_cache, *_, seq_starts, key, value):
        for written, x in ((key, key_cache), (value, value_cache)):
            parts = [rows_of(x, i, s + n)[0, :, s:].transpose(0, 1) for i, s, n in ((0, 3, 2), (2, 0, 4))]
            written[:6] = torch.cat(parts)
        return key, value

    op = torch_npu.atb.npu_paged_cache_load
    check_atb(op.out, args, reference, compiled=rows == 8, seq_starts=torch.tensor([3, 0, 1]), **out)
    key, value = op(*args, **{name: x.clone() for name, x in out.items()})  # without the overload, as servers do
    assert key.shape == out["key"].shape and value.shape == out["value"].shape
    with pytest.raises(RuntimeError, match=r"value has shape \[5, 1, 5\], and the rows are of shape \[6, 1, 5\]"):
        op(*args, key=out["key"], value=out["value"][:5])


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    query, key, out = normal(3, HEADS, SIZE), cache(), torch.zeros(3, HEADS, SIZE)
    with pytest.raises(RuntimeError, match="_npu_paged_attention: key_cache has 2 dimensions, allowed are 3 to 4"):
        torch_npu._npu_paged_attention(
            query, key[0, 0], key, KEY_HEADS, HEADS, SCALE, TABLE, torch.tensor(CONTEXT), out
        )
    with pytest.raises(RuntimeError, match="_splitfuse: there are 2 sequences of queries and 3 of keys"):
        torch_npu._npu_paged_attention_splitfuse(
            query,
            key,
            key,
            TABLE,
            torch.tensor(CONTEXT),
            mask_of("sample"),
            torch.tensor([1, 2]),
            KEY_HEADS,
            HEADS,
            SCALE,
            out,
        )
    with pytest.raises(RuntimeError, match=r"_npu_flash_attention_v2: mask_type is 5, allowed are \[0, 1, 2, 3, 4\]"):
        torch_npu.atb._npu_flash_attention_v2(query, query, query, [3], num_heads=HEADS, mask_type=5, out=out)
    args = (query, query, cache(1), cache(1), TABLE, CONTEXT, HEADS, SCALE, 1)
    with pytest.raises(RuntimeError, match='cache_mode is "kvcache", allowed are "krope_ctkv", "nzcache" and'):
        torch_npu.npu_multi_head_latent_attention(*args, cache_mode="kvcache")
    message = (
        r"key_cache has shape \[9, 3, 2, 8\], allowed are pages of \(block size, 2, 6\) and \(12 / n, block size, n\)"
    )
    short = normal(3, HEADS, 6)
    with pytest.raises(RuntimeError, match=message):
        torch_npu._npu_paged_attention(short, key, key, KEY_HEADS, HEADS, SCALE, TABLE, torch.tensor(CONTEXT), out)
    no_rows = cache()[:, :0]
    with pytest.raises(RuntimeError, match=r"a cache of shape \[9, 0, 2, 8\] has pages without rows"):
        torch_npu._npu_paged_attention(
            query, no_rows, no_rows, KEY_HEADS, HEADS, SCALE, TABLE, torch.tensor(CONTEXT), out
        )
