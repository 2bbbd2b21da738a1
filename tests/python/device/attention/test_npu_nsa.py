# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/sparse_attention/compressed_attention.cc and selected_attention.cc, compared with the
equations of Native Sparse Attention (Yuan et al., 2025), one row at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python.device.attention_reference import attention, by_heads, from_heads, seen, starts_and_ends
from tests.python.device.npu_operators import check, check_close, check_gradient, check_refused, normal

HEADS, KEY_HEADS, SIZE, VALUE_SIZE, SCALE = 4, 2, 8, 6, 0.3
BLOCK, STRIDE, SELECTED, COUNT = (
    4,
    2,
    6,
    3,
)  # rows of a compressed block, rows from one to the next, rows of a selected block, number of selected blocks
SETTINGS = {"head_num": HEADS, "select_block_size": SELECTED, "select_block_count": COUNT}
PAGE = 3
TABLE = torch.tensor([[3, 0, 4], [1, 5, 2]], dtype=torch.int32)


def slow(checked: bool) -> dict[str, bool]:
    """Turns the slowest parts of ``check`` on or off. It is enough to run them for one case of an operator."""
    return {"compiled": checked, "dynamic": checked}


def spans(ends: list[int] | None, rows: int) -> list[tuple[int, int]]:
    return starts_and_ends(ends or [rows])


def compressed(
    input: torch.Tensor, weight: torch.Tensor, size: int, stride: int, *, actual_seq_len: list[int] | None = None
) -> torch.Tensor:
    out = []
    for start, end in spans(actual_seq_len, len(input)):
        for first in range(start, end - size + 1, stride):
            out.append(sum(input[first + i] * weight[i][:, None] for i in range(size)))
    return torch.stack(out) if out else input[:0]


@pytest.mark.parametrize("ends", [None, [3, 12, 17], [2]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compressed_rows_and_gradients_follow_the_equations(ends: list[int] | None, dtype: torch.dtype) -> None:
    args = (normal(19, KEY_HEADS, SIZE, dtype=dtype), normal(BLOCK, KEY_HEADS, dtype=dtype, seed=1), BLOCK, STRIDE)
    check(torch_npu.npu_nsa_compress, args, compressed, actual_seq_len=ends, **slow(dtype == torch.float32))
    check_gradient(torch_npu.npu_nsa_compress, args, compressed, actual_seq_len=ends)


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(0, 7), max_size=4), size=st.integers(1, 4), stride=st.integers(1, 5))
def test_compress_of_any_sizes(lengths: list[int], size: int, stride: int) -> None:
    input, weight = normal(sum(lengths) + 1, KEY_HEADS, SIZE), normal(size, KEY_HEADS, seed=1)
    ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0).tolist()
    want = compressed(input, weight, size, stride, actual_seq_len=ends) if ends else input[:0]
    check_close(torch_npu.npu_nsa_compress(input, weight, size, stride, actual_seq_len=ends), want)


@pytest.mark.parametrize("ends", [None, [3, 12, 17]])
def test_compress_grad(ends: list[int] | None) -> None:
    input, weight = normal(19, KEY_HEADS, SIZE), normal(BLOCK, KEY_HEADS, seed=1)
    blocks = len(compressed(input, weight, BLOCK, STRIDE, actual_seq_len=ends))

    def reference(grad, input, weight, *sizes: int, actual_seq_len: Any) -> tuple[torch.Tensor, ...]:
        leaves = input.requires_grad_(), weight.requires_grad_()
        compressed(*leaves, *sizes, actual_seq_len=actual_seq_len).backward(grad)
        return tuple(x.grad for x in leaves)

    args = (normal(blocks, KEY_HEADS, SIZE, seed=2), input, weight, BLOCK, STRIDE)
    check(torch_npu.npu_nsa_compress_grad, args, reference, actual_seq_len=ends)


@pytest.mark.parametrize("with_table", [True, False])
@pytest.mark.parametrize(("lengths", "slots"), [([8, 7], [5, 2]), ([3, 6], [5, 2]), ([4, 8], [-1, 0])])
def test_compress_infer(with_table: bool, lengths: list[int], slots: list[int]) -> None:
    pages = normal(6, PAGE, KEY_HEADS, SIZE) if with_table else normal(2, 9, KEY_HEADS, SIZE)
    weight = normal(BLOCK, KEY_HEADS, seed=1)

    def reference(pages, weight, *_: Any, cache, **__: Any) -> torch.Tensor:
        for i, (length, slot) in enumerate(zip(lengths, slots, strict=True)):
            if length >= BLOCK and (length - BLOCK) % STRIDE == 0 and slot >= 0:
                rows = torch.cat(list(pages[TABLE[i].long()])) if with_table else pages[i]
                cache.view(-1, KEY_HEADS, SIZE)[slot] = compressed(rows[length - BLOCK : length], weight, BLOCK, 1)
        return cache

    args = (pages, weight, torch.tensor(slots, dtype=torch.int32), BLOCK, STRIDE, pages.shape[1])
    cache = normal(8, KEY_HEADS, SIZE, seed=2) if with_table else normal(4, 2, KEY_HEADS, SIZE, seed=2)
    extra = {"block_table": TABLE if with_table else None, "actual_seq_len": lengths, "cache": cache}
    check(torch_npu.npu_nsa_compress_infer, args, reference, **slow(with_table and lengths[0] == 8), **extra)


def selection(weights: torch.Tensor, blocks: int, dropped: torch.Tensor | None) -> torch.Tensor:
    """Selects blocks by equations 9 and 10: [heads, rows, compressed] -> [rows, key heads, COUNT]."""
    heads, rows, columns = weights.shape
    group, a, b = heads // KEY_HEADS, SELECTED // STRIDE, BLOCK // STRIDE
    out = torch.full((rows, KEY_HEADS, COUNT), -1)
    for row in range(rows):
        for head in range(KEY_HEADS):
            of_heads = weights[head * group : (head + 1) * group, row].sum(0).tolist()
            importance = []
            for j in range(blocks):
                places = [a * j + m - n for m in range(a) for n in range(b)]
                if dropped is None or not dropped[row, j]:
                    importance.append((-sum(of_heads[i] for i in places if 0 <= i < columns), j))
            best = [j for _, j in sorted(importance)[:COUNT]]
            out[row, head, : len(best)] = torch.tensor(best)
    return out


def of_compressed(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, topk: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """Computes attention to compressed rows for one packed sequence."""
    q, k, v = (by_heads(x, "TND", 0) for x in (query, key, value))
    rows, columns = q.shape[2], k.shape[2]
    visible = None if mask is None else mask[:rows, :columns] == 0
    result, maxima, sums = attention(q, k, v, SCALE, visible=visible)
    scores = torch.einsum("bhid,bhjd->bhij", q, k.repeat_interleave(HEADS // KEY_HEADS, 1)) * SCALE
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0)[0]
    blocks = -(-((columns - 1) * STRIDE + BLOCK) // SELECTED)
    dropped = None if topk is None else topk[:rows, :blocks] != 0
    statistics = (from_heads(x, "TND").expand(-1, -1, 8) for x in (maxima, sums))
    return (from_heads(result, "TND"), selection(weights, blocks, dropped), *statistics)


QUERY_ENDS, KEY_ENDS, BLOCK_ENDS = [3, 8], [5, 12], [2, 5]  # KEY_ENDS: of 12 and 16 rows before compression


def masks() -> dict[str, torch.Tensor]:
    """Returns masks with which a query sees only the compressed rows that end before its position."""
    mask = torch.tensor([[j * STRIDE + BLOCK > 3 * i for j in range(7)] for i in range(5)])
    return {"atten_mask": mask, "topk_mask": torch.tensor([[j > i for j in range(3)] for i in range(5)])}


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("with_masks", [True, False])
def test_compress_attention(ends: bool, with_masks: bool) -> None:
    rows, columns = (8, 12) if ends else (5, 7)

    def reference(query, key, value, *_: Any, atten_mask=None, topk_mask=None, **__: Any) -> tuple[torch.Tensor, ...]:
        parts = []
        pairs = zip(spans(QUERY_ENDS if ends else None, rows), spans(KEY_ENDS if ends else None, columns), strict=True)
        for (a, b), (c, d) in pairs:
            parts.append(of_compressed(query[a:b], key[c:d], value[c:d], atten_mask, topk_mask))
        return tuple(torch.cat(x) for x in zip(*parts, strict=True))

    args = (
        normal(rows, HEADS, SIZE),
        normal(columns, KEY_HEADS, SIZE, seed=1),
        normal(columns, KEY_HEADS, VALUE_SIZE, seed=2),
        *(SCALE, HEADS, BLOCK, STRIDE, SELECTED, COUNT),
    )
    extra: dict[str, Any] = masks() if with_masks else {}
    if ends:
        extra |= {"actual_seq_qlen": QUERY_ENDS, "actual_cmp_seq_kvlen": KEY_ENDS}
        check(torch_npu.npu_nsa_compress_attention, args, reference, **slow(False), **extra)
        extra |= {"actual_sel_seq_kvlen": BLOCK_ENDS}
    checks = {"compiled": ends and with_masks, "dynamic": with_masks and not ends}
    check(torch_npu.npu_nsa_compress_attention, args, reference, **checks, **extra)
    check_gradient(torch_npu.npu_nsa_compress_attention, args, reference, **extra)


def in_pages(rows: list[torch.Tensor], flat: bool) -> torch.Tensor:
    """Stores sequences of [rows, heads, size] in pages."""
    pages = torch.zeros(6, PAGE, *rows[0].shape[1:])
    for sequence, x in enumerate(rows):
        for row in range(len(x)):
            pages[TABLE[sequence, row // PAGE], row % PAGE] = x[row]
    return pages.flatten(2) if flat else pages


@pytest.mark.parametrize("layout", ["TND", "BSND", "BSH"])
def test_compress_attention_infer(layout: str) -> None:
    rows = 2
    query, key = normal(2 * rows, HEADS, SIZE), [normal(n, KEY_HEADS, SIZE, seed=n) for n in (5, 7)]
    value = [normal(n, KEY_HEADS, VALUE_SIZE, seed=n + 1) for n in (5, 7)]
    topk = torch.tensor([[False, True, False], [True, True, False]])

    def reference(*_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [
            of_compressed(q.double(), k.double(), v.double(), None, topk)[:2]
            for q, k, v in zip(query.split(rows), key, value, strict=True)
        ]
        result, chosen = (torch.stack(x) for x in zip(*parts, strict=True))
        if layout == "TND":
            return result.flatten(0, 1), chosen.flatten(0, 1)
        return result.flatten(2) if layout == "BSH" else result, chosen

    given = query if layout == "TND" else query.view(2, rows, HEADS, SIZE)
    given = given.flatten(2) if layout == "BSH" else given
    pages = in_pages(key, layout != "BSND"), in_pages(value, layout != "BSND")
    sizes = (SCALE, HEADS, KEY_HEADS, SELECTED, COUNT, PAGE, BLOCK, STRIDE)
    extra = {"layout": layout, "block_table": TABLE, "topk_mask": topk, "actual_cmp_seq_kvlen": [5, 7]}
    op = torch_npu.npu_nsa_compress_attention_infer
    check(op, (given, *pages, *sizes), reference, **slow(layout == "TND"), **extra)
    lengths = {"actual_seq_qlen": [2, 4] if layout == "TND" else [2, 2], "actual_sel_seq_kvlen": [2, 3]}
    check(op, (given, *pages, *sizes), reference, **slow(False), **extra, **lengths)


def choice(rows: int, columns: int, seed: int) -> torch.Tensor:
    """Returns random choices of blocks, [rows, key heads, COUNT], some of which are -1."""
    blocks = -(-columns // SELECTED)
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(blocks + 1, generator=generator)[:COUNT] - 1 for _ in range(rows * KEY_HEADS)]
    short = torch.nn.functional.pad(torch.stack(orders), (0, max(COUNT - blocks - 1, 0)), value=-1)
    return short.view(rows, KEY_HEADS, COUNT).int()


def of_selected(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, chosen: torch.Tensor, visible: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """Computes attention to the chosen blocks for one packed sequence."""
    q, k, v = (by_heads(x, "TND", 0) for x in (query, key, value))
    own = torch.zeros(HEADS, q.shape[2], k.shape[2], dtype=torch.bool)
    for row in range(q.shape[2]):
        for head in range(HEADS):
            for block in chosen[row, head // (HEADS // chosen.shape[1])].tolist():
                if block >= 0:
                    own[head, row, block * SELECTED : (block + 1) * SELECTED] = True
    result, maxima, sums = attention(q, k, v, SCALE, visible=own if visible is None else own & visible)
    return tuple(from_heads(x, "TND") for x in (result, maxima.expand(-1, -1, -1, 8), sums.expand(-1, -1, -1, 8)))


SELECT_ENDS = {"actual_seq_qlen": [3, 8], "actual_seq_kvlen": [9, 23]}
CHOSEN = torch.cat([choice(3, 9, 0), choice(5, 14, 1)])
MASKS = {"none": None, "full": torch.arange(14) > torch.arange(5)[:, None] * 3, "sample": torch.ones(4, 4).triu(1)}


def select_reference(
    query, key, value, chosen, *_: Any, atten_mask=None, actual_seq_qlen, actual_seq_kvlen
) -> tuple[torch.Tensor, ...]:
    parts = []
    for (a, b), (c, d) in zip(starts_and_ends(actual_seq_qlen), starts_and_ends(actual_seq_kvlen), strict=True):
        visible = None
        if atten_mask is not None:
            visible = seen(b - a, d - c, 3) if len(atten_mask) < 5 else atten_mask[: b - a, : d - c] == 0
        parts.append(of_selected(query[a:b], key[c:d], value[c:d], chosen[a:b], visible))
    return tuple(torch.cat(x) for x in zip(*parts, strict=True))


def select_args() -> tuple[Any, ...]:
    key, value = normal(23, KEY_HEADS, SIZE, seed=1), normal(23, KEY_HEADS, VALUE_SIZE, seed=2)
    return normal(8, HEADS, SIZE), key, value, CHOSEN, SCALE, HEADS, SELECTED, COUNT


@pytest.mark.parametrize("mask", MASKS)
def test_select_attention(mask: str) -> None:
    op, extra = torch_npu.npu_nsa_select_attention, {"atten_mask": MASKS[mask]} | SELECT_ENDS
    check(op, select_args(), select_reference, compiled=mask == "full", dynamic=False, **extra)
    check_gradient(op, select_args(), select_reference, **extra)


def gradients(reference: Any) -> Any:
    """Returns a reference for the gradients of query, key and value by the first result of ``reference``."""

    def call(gradient, query, key, value, *rest: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        reference(*leaves, *rest[3:], **kwargs)[0].backward(gradient)
        return tuple(x.grad for x in leaves)

    return call


def check_select_attention_grad(args: tuple[Any, ...], reference: Any, *, compiled: bool, dynamic: bool, **extra: Any):
    query, key, value, *rest = args
    saved = torch_npu.npu_nsa_select_attention(*args, **extra)
    args = (normal(*saved[0].shape, seed=7), query, key, value, *saved, *rest)
    op = torch_npu.npu_nsa_select_attention_grad
    check(op, args, gradients(reference), compiled=compiled, dynamic=dynamic, **extra)


@pytest.mark.parametrize("mask", MASKS)
def test_select_attention_grad(mask: str) -> None:
    extra = {"atten_mask": MASKS[mask]} | SELECT_ENDS
    check_select_attention_grad(select_args(), select_reference, compiled=mask == "full", dynamic=False, **extra)


def test_select_attention_of_one_sequence() -> None:
    """There is one sequence without lengths, whose sizes may be symbols."""
    query, key, value, chosen, *rest = select_args()
    args = (query, key[:, :1], value[:, :1], chosen[:, :1], *rest)

    def reference(query, key, value, chosen, *_: Any) -> tuple[torch.Tensor, ...]:
        return of_selected(query, key, value, chosen, None)

    check(torch_npu.npu_nsa_select_attention, args, reference, compiled=False)
    check_select_attention_grad(args, reference, compiled=False, dynamic=True)


@pytest.mark.parametrize("layout", ["TND", "BSND", "BSH"])
def test_select_attention_infer(layout: str) -> None:
    rows = 2
    query, key = normal(2 * rows, HEADS, SIZE), [normal(n, KEY_HEADS, SIZE, seed=n) for n in (5, 9)]
    value = [normal(n, KEY_HEADS, VALUE_SIZE, seed=n + 1) for n in (5, 9)]
    chosen = [choice(rows, n, n) for n in (5, 9)]

    def reference(*_: Any, **__: Any) -> torch.Tensor:
        parts = [
            of_selected(q.double(), k.double(), v.double(), c, None)[0]
            for q, k, v, c in zip(query.split(rows), key, value, chosen, strict=True)
        ]
        result = torch.cat(parts) if layout == "TND" else torch.stack(parts)
        return result.flatten(2) if layout == "BSH" else result

    given = query if layout == "TND" else query.view(2, rows, HEADS, SIZE)
    given = given.flatten(2) if layout == "BSH" else given
    pages = in_pages(key, layout != "BSND"), in_pages(value, layout != "BSND")
    indices = torch.cat(chosen) if layout == "TND" else torch.stack(chosen)
    args = (given, *pages, indices, SCALE, HEADS, KEY_HEADS, SELECTED, COUNT, PAGE)
    extra = {"layout": layout, "block_table": TABLE, "actual_seq_kvlen": [5, 9]}
    check(torch_npu.npu_nsa_select_attention_infer, args, reference, compiled=layout == "BSND", dynamic=False, **extra)


def test_sequences_without_keys() -> None:
    """A sequence that is shorter than a block has no compressed rows. A sequence may also have no queries."""
    query, key = normal(5, HEADS, SIZE), normal(5, KEY_HEADS, SIZE, seed=1)
    for op, rest, name in (
        (torch_npu.npu_nsa_compress_attention, (SCALE, HEADS, BLOCK, STRIDE, SELECTED, COUNT), "actual_cmp_seq_kvlen"),
        (torch_npu.npu_nsa_select_attention, (choice(5, 5, 0), SCALE, HEADS, SELECTED, COUNT), "actual_seq_kvlen"),
    ):
        got = op(query, key, key, *rest, **{"actual_seq_qlen": [2, 2, 5], name: [0, 1, 5]})
        assert not got[0][:2].any() and got[0][2:].any()
        if name == "actual_cmp_seq_kvlen":
            assert (got[1][:2] == -1).all()


def test_select_attention_infer_without_pages() -> None:
    """Without lengths, all batches are computed at once, and sizes may be symbols."""
    query, key, value = (normal(2, n, h, SIZE, seed=n) for n, h in ((3, HEADS), (9, KEY_HEADS), (9, KEY_HEADS)))
    chosen = torch.stack([choice(3, 9, 0), choice(3, 9, 1)])

    def reference(query, key, value, chosen, *_: Any) -> torch.Tensor:
        return torch.stack([of_selected(*x, None)[0] for x in zip(query, key, value, chosen, strict=True)])

    args = (query, key, value, chosen, SCALE, HEADS, KEY_HEADS, SELECTED, COUNT, PAGE)
    check(torch_npu.npu_nsa_select_attention_infer, args, reference, compiled=False)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    rows, weight = normal(9, KEY_HEADS, SIZE), normal(BLOCK, KEY_HEADS)
    name = "npu_nsa_compress"
    check_refused(
        name, "compress_block_size is 4 and compress_stride 0, allowed are 1 and more", rows, weight, BLOCK, 0
    )
    message = r"weight has shape \[4, 2\], allowed is \[compress_block_size, heads of input\], \[3, 2\]"
    check_refused(name, message, rows, weight, 3, STRIDE)
    message = "actual_seq_len ends at 10, and input has 9 rows"
    check_refused(name, message, rows, weight, BLOCK, STRIDE, actual_seq_len=[4, 10])
    message = r"grad has shape \[2, 2, 8\], and there are 3 blocks"
    check_refused("npu_nsa_compress_grad", message, rows[:2], rows, weight, BLOCK, STRIDE)
    pages, slots = normal(6, PAGE, KEY_HEADS, SIZE), torch.tensor([0])
    name, args = "npu_nsa_compress_infer", (pages, weight, slots, BLOCK, STRIDE)
    check_refused(
        name, "page_block_size is 5, and pages of input have 3 rows", *args, 5, actual_seq_len=[4], cache=rows
    )
    check_refused(name, "actual_seq_len is missing", *args, PAGE, cache=rows)
    message = r"slot_mapping has shape \[1\], and there are 2 sequences"
    check_refused(name, message, *args, PAGE, actual_seq_len=[4, 4], cache=rows)

    query = normal(8, HEADS, SIZE)
    name, args = "npu_nsa_compress_attention", (query, rows, rows, SCALE)
    message = "compress_block_size is 4 and select_block_size 5, allowed are multiples of compress_stride, 2"
    check_refused(name, message, *args, HEADS, BLOCK, STRIDE, 5, COUNT)
    message = "head_num is 3, and query has 4 heads"
    check_refused(name, message, *args, 3, BLOCK, STRIDE, SELECTED, COUNT)
    check_refused(name, "head_num is 0, allowed are 1 and more", *args, 0, BLOCK, STRIDE, SELECTED, COUNT)
    sizes = (HEADS, BLOCK, STRIDE, SELECTED, COUNT)
    message = r"atten_mask has shape \[2, 9\], and a sequence has 8 rows and 9 columns"
    check_refused(name, message, *args, *sizes, atten_mask=torch.zeros(2, 9, dtype=torch.bool))
    message = "actual_sel_seq_kvlen has 2 elements, and there are 1 sequences"
    check_refused(name, message, *args, *sizes, actual_sel_seq_kvlen=[1, 2])

    chosen = choice(8, 9, 0)
    name, args = "npu_nsa_select_attention", (query, rows, rows)
    message = "select_block_count is 2, and topk_indices has 3 for a row"
    check_refused(name, message, *args, chosen, SCALE, HEADS, SELECTED, 2)
    message = "topk_indices has 1 heads, and key 2"
    check_refused(name, message, *args, chosen[:, :1], SCALE, HEADS, SELECTED, COUNT)
    name, args = "npu_nsa_select_attention_infer", (query, pages, pages, chosen, SCALE, HEADS, KEY_HEADS)
    rest = {"layout": "TND", "block_table": TABLE}
    check_refused(name, "block_table needs the lengths of keys", *args, SELECTED, COUNT, PAGE, **rest)
    check_refused(name, 'layout is "SBH", allowed are BSH, BSND and TND', *args, SELECTED, COUNT, PAGE, layout="SBH")
    message = "page_block_size is 4, and pages of key have 3 rows"
    check_refused(name, message, *args, SELECTED, COUNT, 4, **rest)
    message = "query has 8 rows, which are no multiple of 3 sequences: actual_seq_qlen is missing"
    check_refused(name, message, *args, SELECTED, COUNT, PAGE, actual_seq_kvlen=[1, 2, 3], **rest)
