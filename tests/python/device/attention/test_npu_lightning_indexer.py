# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/sparse_attention/lightning_indexer.cc, and the gradients of the indexer
(DeepSeek-V3.2, 2025)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, seen
from tests.python.device.npu_operators import check, check_gradient, check_refused, normal
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

COUNT = 5
NAMES = ("layout_key", "actual_seq_lengths_key")


def scores_of(query: torch.Tensor, key: torch.Tensor, weights: torch.Tensor, mode: int) -> torch.Tensor:
    """Returns scores, -inf where a row does not see a column. ``weights``: [1, heads, rows, 1]."""
    out = torch.zeros(1, 1, query.shape[2], key.shape[2], dtype=query.dtype)
    for head in range(query.shape[1]):
        out = out + weights[:, head, None] * torch.relu(query[:, head, None] @ key.mT)
    visible = seen(*out.shape[-2:], 3) if mode == 3 else torch.ones(out.shape[-2:], dtype=torch.bool)
    return out.masked_fill(~visible, float("-inf"))


def best_of(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the indices and the scores of the best columns of each row, [1, 1, rows, COUNT]."""
    rows = scores.shape[2]
    best = torch.full((1, 1, rows, COUNT), float("-inf"), dtype=scores.dtype)
    chosen = torch.full((1, 1, rows, COUNT), -1)
    for row in range(rows):
        known = [(x, j) for j, x in enumerate(scores[0, 0, row].tolist()) if x > float("-inf")]
        for place, (score, j) in enumerate(sorted(known, reverse=True)[:COUNT]):
            best[0, 0, row, place], chosen[0, 0, row, place] = score, j
    return chosen, best


@pytest.mark.parametrize(("query_layout", "key_layout"), LAYOUTS)
@pytest.mark.parametrize("mode", [0, 3])
def test_lightning_indexer(query_layout: str, key_layout: str, mode: int) -> None:
    queries, keys = parts_of(HEADS, QUERIES, 1), parts_of(1, KEYS, 2)
    weights = parts_of(HEADS, QUERIES, 3, size=1)

    def reference(*_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [
            best_of(scores_of(q.double(), k.double(), w.double(), mode))
            for q, k, w in zip(queries, keys, weights, strict=True)
        ]
        indices, values = zip(*parts, strict=True)
        return arranged([x + 1 for x in indices], query_layout) - 1, arranged(list(values), query_layout)

    args = (arranged(queries, query_layout), arranged(keys, key_layout), arranged(weights, query_layout)[..., 0])
    extra = settings(query_layout, key_layout, NAMES, sparse_count=COUNT, sparse_mode=mode, return_value=True)
    checks = slow((query_layout, key_layout, mode) == ("TND", "PA_BSND", 3))
    check(torch_npu.npu_lightning_indexer, args, reference, whole=True, **checks, **extra)
    assert torch_npu.npu_lightning_indexer(*args, **extra | {"return_value": False})[1].numel() == 0


@pytest.mark.parametrize(("query_layout", "key_layout"), LAYOUTS)
def test_quant_lightning_indexer(query_layout: str, key_layout: str) -> None:
    queries = [(x * 30).to(torch.int8) for x in parts_of(HEADS, QUERIES, 1)]
    keys = [(x * 30).to(torch.int8) for x in parts_of(1, KEYS, 2)]
    weights, query_scales = parts_of(HEADS, QUERIES, 3, size=1), parts_of(HEADS, QUERIES, 4, size=1)
    query_scales, key_scales = [x.abs() for x in query_scales], [x.abs() for x in parts_of(1, KEYS, 5, size=1)]

    def reference(*_: Any, **__: Any) -> torch.Tensor:
        parts = []
        for q, k, w, qs, ks in zip(queries, keys, weights, query_scales, key_scales, strict=True):
            parts.append(best_of(scores_of(q.double() * qs.double(), k.double() * ks.double(), w.double(), 3))[0])
        return arranged([x + 1 for x in parts], query_layout) - 1

    args = (arranged(queries, query_layout), arranged(keys, key_layout), arranged(weights, query_layout)[..., 0])
    args = (*args, arranged(query_scales, query_layout)[..., 0], arranged(key_scales, key_layout)[..., 0], 0, 0)
    extra = settings(query_layout, key_layout, NAMES, sparse_count=COUNT)
    checks = slow((query_layout, key_layout) == ("TND", "PA_BSND"))
    check(torch_npu.npu_quant_lightning_indexer, args, reference, whole=True, **checks, **extra)


def test_quant_lightning_indexer_reads_float8() -> None:
    query, key = (normal(1, n, h, SIZE, seed=n).to(torch.float8_e4m3fn) for n, h in ((2, HEADS), (4, 1)))
    scales, weights = torch.ones(1, 4, 1), normal(1, 2, HEADS, seed=2)
    rest = (weights, torch.ones(1, 2, HEADS), scales, 0, 0)
    got = torch_npu.npu_quant_lightning_indexer(query, key, *rest, sparse_count=COUNT)
    want = torch_npu.npu_lightning_indexer(query.float(), key.float(), weights, sparse_count=COUNT)[0]
    assert torch.equal(got, want)
    codes = {"query_dtype": torch.float8_e4m3fn, "key_dtype": torch.float8_e4m3fn, "sparse_count": COUNT}
    assert torch.equal(
        got, torch_npu.npu_quant_lightning_indexer(*(x.view(torch.int8) for x in (query, key)), *rest, **codes)
    )


def index_arguments(layout: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weights = arranged(parts_of(HEADS, QUERIES, 3, size=1), layout)[..., 0]
    return arranged(parts_of(HEADS, QUERIES, 1), layout), arranged(parts_of(1, KEYS, 2), layout), weights


def all_scores(layout: str, mode: int, query, key, weights) -> list[torch.Tensor]:
    parts = of_sequences(query, layout, QUERIES), of_sequences(key, layout, KEYS)
    own = of_sequences(weights.unsqueeze(-1), layout, QUERIES)
    return [scores_of(*x, mode) for x in zip(*parts, own, strict=True)]


def taken(scores: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Returns the scores at ``indices``, and 0 where an index is -1."""
    return scores.gather(-1, indices.clamp_min(0).long()).masked_fill(indices < 0, 0)


def choices(layout: str, mode: int) -> list[torch.Tensor]:
    return [best_of(x)[0].int() for x in all_scores(layout, mode, *index_arguments(layout))]


def arranged_choices(parts: list[torch.Tensor], layout: str) -> torch.Tensor:
    return arranged([x + 1 for x in parts], layout) - 1


def gradients(loss: Callable[..., torch.Tensor], *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaves = [x.detach().requires_grad_() for x in given]
    loss(*leaves).backward()
    return tuple(x.grad for x in leaves)


@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize("mode", [0, 3])
def test_lightning_indexer_grad(layout: str, mode: int) -> None:
    chosen = choices(layout, mode)
    gradient = normal(*arranged(chosen, layout).shape, seed=5)

    def reference(query, key, dy, indices, weights, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
        def loss(*given: torch.Tensor) -> torch.Tensor:
            values = [taken(x, c) for x, c in zip(all_scores(layout, mode, *given), chosen, strict=True)]
            return (arranged(values, layout) * dy).sum()

        return gradients(loss, query, key, weights)

    query, key, weights = index_arguments(layout)
    args = (query, key, gradient, arranged_choices(chosen, layout), weights)
    sizes = {"actual_seq_lengths_query": lengths(layout, QUERIES), "actual_seq_lengths_key": lengths(layout, KEYS)}
    checks = slow((layout, mode) == ("TND", 3))
    op = torch_npu.npu_lightning_indexer_grad
    check(op, args, reference, whole=True, layout=layout, sparse_mode=mode, **checks, **sizes)


def test_batches_of_one_length() -> None:
    """Without lengths nothing is read on the host, and compiled graphs see the operators inside. There are fewer keys
    than COUNT."""
    query, key, weights = normal(2, 3, HEADS, SIZE), normal(2, 4, 1, SIZE, seed=1), normal(2, 3, HEADS, seed=2)

    def scores(query, key, weights) -> list[torch.Tensor]:
        parts = zip(query, key, weights, strict=True)
        return [
            scores_of(q.transpose(0, 1)[None], k.transpose(0, 1)[None], w.mT[None, ..., None], 3) for q, k, w in parts
        ]

    def reference(*args: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.cat(x).transpose(1, 2) for x in zip(*map(best_of, scores(*args)), strict=True))

    args = (query, key, weights)
    check(torch_npu.npu_lightning_indexer, args, reference, sparse_count=COUNT, return_value=True)
    indices = torch_npu.npu_lightning_indexer(*args, sparse_count=COUNT)[0]

    def of_gradient(query, key, dy, indices, weights) -> tuple[torch.Tensor, ...]:
        def loss(*given: torch.Tensor) -> torch.Tensor:
            values = taken(torch.cat(scores(*given)), indices.transpose(1, 2))
            return (values.transpose(1, 2) * dy).sum()

        return gradients(loss, query, key, weights)

    args = (query, key, normal(*indices.shape, seed=3), indices, weights)
    check(torch_npu.npu_lightning_indexer_grad, args, of_gradient)


def test_gradients_of_chosen_scores_are_those_of_the_reference() -> None:
    """In mode 0 each row sees all keys."""
    extra = settings("TND", "TND", NAMES, sparse_count=3, sparse_mode=0, return_value=True)

    def op(*args: torch.Tensor) -> torch.Tensor:
        on_device = {k: x.to(args[0].device) if isinstance(x, torch.Tensor) else x for k, x in extra.items()}
        return torch_npu.npu_lightning_indexer(*args, **on_device)[1]

    def reference(*args: torch.Tensor) -> torch.Tensor:
        return arranged([x.topk(3).values for x in all_scores("TND", 0, *args)], "TND")

    check_gradient(op, index_arguments("TND"), reference)


def ends_or_lengths(layout: str) -> dict[str, list[int]]:
    return {"actual_seq_qlen": lengths(layout, QUERIES).tolist(), "actual_seq_klen": lengths(layout, KEYS).tolist()}


def of_rows(parts: list[torch.Tensor], layout: str) -> torch.Tensor:
    """Arranges the rows [1, 1, rows, 1] of each sequence as [B, 1, S] or [1, T]."""
    rows = arranged(parts, layout)[..., 0]
    return rows.transpose(0, 1).contiguous() if layout == "TND" else rows.transpose(1, 2).contiguous()


def index_statistics(scores: list[torch.Tensor], layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    maxima = [x.amax(-1, keepdim=True) for x in scores]
    sums = [(x - m).exp().sum(-1, keepdim=True) for x, m in zip(scores, maxima, strict=True)]
    return of_rows(maxima, layout), of_rows(sums, layout)


@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize("mode", [0, 3])
def test_dense_softmax_lse(layout: str, mode: int) -> None:
    def reference(*args: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return index_statistics(all_scores(layout, mode, *args), layout)

    op, extra = torch_npu.npu_dense_lightning_indexer_softmax_lse, {"layout": layout, "sparse_mode": mode}
    checks = slow((layout, mode) == ("TND", 3))
    check(op, index_arguments(layout), reference, **checks, **extra, **ends_or_lengths(layout))


def test_dense_softmax_lse_without_lengths() -> None:
    """Without lengths, all batches are computed at once, and sizes may be symbols."""
    query, key, weights = normal(2, 3, HEADS, SIZE), normal(2, 4, 1, SIZE, seed=1), normal(2, 3, HEADS, seed=2)

    def reference(query, key, weights) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [
            scores_of(q.transpose(0, 1)[None], k.transpose(0, 1)[None], w.mT[None, ..., None], 3)
            for q, k, w in zip(query, key, weights, strict=True)
        ]
        return index_statistics(parts, "BSND")

    check(torch_npu.npu_dense_lightning_indexer_softmax_lse, (query, key, weights), reference)


ROPE, MAIN_HEADS = 2, 4


def main_arguments(layout: str, key_heads: int) -> dict[str, torch.Tensor]:
    return {
        "query": arranged(parts_of(MAIN_HEADS, QUERIES, 6), layout),
        "key": arranged(parts_of(key_heads, KEYS, 7), layout),
        "query_rope": arranged(parts_of(MAIN_HEADS, QUERIES, 8, size=ROPE), layout),
        "key_rope": arranged(parts_of(key_heads, KEYS, 9, size=ROPE), layout),
    }


def visible_to(rows: int, columns: int, mode: int, chosen: torch.Tensor | None) -> torch.Tensor:
    out = seen(rows, columns, 3) if mode == 3 else torch.ones(rows, columns, dtype=torch.bool)
    if chosen is None:
        return out
    named = torch.zeros(rows, columns, dtype=torch.bool)
    for row in range(rows):
        for column in chosen[0, 0, row].tolist():
            if column >= 0:
                named[row, column] = True
    return out & named


class Main:
    """The attention that an indexer learns from."""

    def __init__(self, layout: str, mode: int, key_heads: int, chosen: list[torch.Tensor] | None) -> None:
        self.given = main_arguments(layout, key_heads)
        exact = {name: x.double() for name, x in self.given.items()}
        query, key = (torch.cat([exact[x], exact[f"{x}_rope"]], -1) for x in ("query", "key"))
        maxima, sums = [], []
        self.visible, self.distributions = [], []
        pairs = zip(of_sequences(query, layout, QUERIES), of_sequences(key, layout, KEYS), strict=True)
        for index, (q, k) in enumerate(pairs):
            rows, columns = q.shape[2], k.shape[2]
            visible = visible_to(rows, columns, mode, chosen[index] if chosen else None)
            _, largest, total = attention(q, k, k, SCALE, visible=visible)
            maxima.append(largest)
            sums.append(total)
            scores = torch.einsum("bhid,bhjd->bhij", q, k.repeat_interleave(MAIN_HEADS // key_heads, 1)) * SCALE
            weights = scores.masked_fill(~visible, float("-inf")).softmax(-1).sum(1, keepdim=True)
            self.visible.append(visible)
            self.distributions.append(weights / weights.sum(-1, keepdim=True))
        self.statistics = []
        for parts in (maxima, sums):  # [B, key heads, S, heads of each], or without B
            rows = arranged(parts, layout)[..., 0].unflatten(-1, (key_heads, -1))
            self.statistics.append(rows.transpose(-3, -2).contiguous().float())

    def loss(self, scores: list[torch.Tensor]) -> torch.Tensor:
        """Returns KL(distribution || softmax(scores)), summed over rows."""
        out = torch.zeros((), dtype=torch.float64)
        for x, visible, wanted in zip(scores, self.visible, self.distributions, strict=True):
            logarithms = x.masked_fill(~visible, float("-inf")).log_softmax(-1)
            for row, column in visible.nonzero().tolist():
                p = wanted[0, 0, row, column]
                out = out + p * (p.log() - logarithms[0, 0, row, column])
        return out

    def reference(self, layout: str, mode: int) -> Callable[..., Any]:
        def call(_query, _key, query, key, weights, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
            def loss(*given: torch.Tensor) -> torch.Tensor:
                return self.loss(all_scores(layout, mode, *given))

            return *gradients(loss, query, key, weights), loss(query, key, weights).view(1)

        return call


CASES = [("BSND", 0, 1), ("BSND", 3, 2), ("TND", 3, 1), ("TND", 0, 4)]


@pytest.mark.parametrize(("layout", "mode", "key_heads"), CASES)
def test_dense_grad_kl_loss(layout: str, mode: int, key_heads: int) -> None:
    main, index = Main(layout, mode, key_heads, None), index_arguments(layout)
    sizes = {"layout": layout, "sparse_mode": mode} | ends_or_lengths(layout)
    of_index = torch_npu.npu_dense_lightning_indexer_softmax_lse(*index, **sizes)
    args = (main.given["query"], main.given["key"], *index, *main.statistics, *of_index, SCALE)
    rope = {name: main.given[name] for name in ("query_rope", "key_rope")}
    checks = {"compiled": layout == "TND" and mode == 3, "dynamic": False}
    op = torch_npu.npu_dense_lightning_indexer_grad_kl_loss
    check(op, args, main.reference(layout, mode), **checks, **sizes, **rope)


@pytest.mark.parametrize(("layout", "mode", "key_heads"), CASES)
def test_sparse_grad_kl_loss(layout: str, mode: int, key_heads: int) -> None:
    chosen = [x[..., :3] for x in choices(layout, mode)]
    main, index = Main(layout, mode, key_heads, chosen), index_arguments(layout)
    sizes = {"layout": layout, "sparse_mode": mode} | ends_or_lengths(layout)
    indices = arranged_choices(chosen, layout)
    args = (main.given["query"], main.given["key"], *index, indices, *main.statistics, SCALE)
    rope = {name: main.given[name] for name in ("query_rope", "key_rope")}
    checks = {"compiled": layout == "TND" and mode == 3, "dynamic": False}
    op = torch_npu.npu_sparse_lightning_indexer_grad_kl_loss
    check(op, args, main.reference(layout, mode), **checks, **sizes, **rope)


def test_grad_kl_loss_without_lengths() -> None:
    """Without lengths, all batches are computed at once. The distribution is that of the indexer itself, so loss and
    gradients are 0."""
    query, key, weights = normal(2, 3, 1, SIZE).abs(), normal(2, 4, 1, SIZE, seed=1).abs(), torch.ones(2, 3, 1)
    op = torch_npu.npu_dense_lightning_indexer_softmax_lse
    statistics = op(query, key, weights)
    of_main = [x.unsqueeze(-1) for x in statistics]

    def reference(*args: Any) -> tuple[torch.Tensor, ...]:
        return *(torch.zeros_like(x) for x in args[2:5]), torch.zeros(1)

    args = (query, key, query, key, weights, *of_main, *statistics, 1.0)
    check(torch_npu.npu_dense_lightning_indexer_grad_kl_loss, args, reference, compiled=False)


def test_wrong_modes_layouts_and_sizes_are_refused() -> None:
    query, key, weights = normal(1, 2, HEADS, SIZE), normal(1, 3, 1, SIZE), normal(1, 2, HEADS)
    name = "npu_lightning_indexer"
    check_refused(name, 'layout_query is "BNSD", allowed are BSND and TND', query, key, weights, layout_query="BNSD")
    check_refused(name, "sparse_mode is 2, allowed are 0 and 3", query, key, weights, sparse_mode=2)
    packed = {"layout_query": "TND", "layout_key": "TND"}
    check_refused(name, "layout TND needs the lengths of queries", query[0], key[0], weights[0], **packed)
    check_refused(name, "layout PA_BSND needs the lengths of keys", query, key, weights, layout_key="PA_BSND")
    name = "npu_quant_lightning_indexer"
    check_refused(name, r"query_quant_mode is 1, allowed are \[0\]", query, key, weights, weights, key[..., 0], 1, 0)
    check_refused(name, r"key_quant_mode is 2, allowed are \[0\]", query, key, weights, weights, key[..., 0], 0, 2)
    name = "npu_dense_lightning_indexer_grad_kl_loss"
    main, rows = normal(1, 1, 2, HEADS), normal(1, 2)
    message = r"softmax_max_index has shape \[1\], allowed are \[B, 1, S\], and \[1, T\] where the layout is TND"
    check_refused(name, message, query, key, query, key, weights, main, main, rows[0, :1], rows, SCALE)
