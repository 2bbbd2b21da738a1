# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of attention operators, also of those that choose keys by indices or keep them in a state."""

from __future__ import annotations

from typing import Any

import torch

from tests.python.device.drawn_calls import Call, Draw, call, whole, written

KEY_HEADS = 2


def arranged(d: Draw, layout: str, batch: int, heads: int, rows: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    sizes = {"BSH": (batch, rows, heads * n), "BSND": (batch, rows, heads, n), "BNSD": (batch, heads, rows, n)}
    sizes |= {"TND": (rows, heads, n), "NTD": (heads, rows, n), "SBH": (rows, batch, heads * n)}
    return d.normal(*sizes[layout], dtype=dtype)


def ends(d: Draw, rows: int, batch: int) -> list[int]:
    return [*sorted(d.size(0, rows) for _ in range(batch - 1)), rows]


def attention(d: Draw, names: tuple[str, str, str, str, str, str]) -> Call:
    """``names``: how the operator calls heads, scale, lengths of queries, lengths of keys, layout and statistics."""
    heads, scale, lengths, key_lengths, layout_name, statistics = names
    layout = d.choice("BSH", "BSND", "BNSD", "TND", "BNSD_BSND", "NTD_TND")
    first, packed = layout.partition("_")[0], layout[0] in "TN"
    batch, rows, columns, n, dtype = d.size(1, 3), d.size(), d.size(), 4 * d.size(1, 2), d.dtype()
    query_heads = KEY_HEADS * d.size(1, 2)
    query = arranged(d, first, batch, query_heads, rows, n, dtype)
    key, value = (arranged(d, first, batch, KEY_HEADS, columns, n, dtype) for _ in range(2))
    how: dict[str, Any] = {heads: query_heads, "num_key_value_heads": KEY_HEADS, scale: 0.5, layout_name: layout}
    how |= {statistics: d.flag(), "sparse_mode": d.choice(0, 3)}
    if packed:
        how |= {lengths: ends(d, rows, batch), key_lengths: ends(d, columns, batch)}
    elif d.flag():
        how |= {key_lengths: [d.size(0, columns) for _ in range(batch)]}
    elif how["sparse_mode"] == 0 and d.flag():
        how |= {"atten_mask": d.integers(0, 2, batch, 1, rows, columns).bool()}
    return (query, key, value), how


FIRST = ("num_heads", "scale", "actual_seq_lengths", "actual_seq_lengths_kv", "input_layout", "softmax_lse_flag")
SECOND = (
    "num_query_heads",
    "softmax_scale",
    "actual_seq_qlen",
    "actual_seq_kvlen",
    "input_layout",
    "return_softmax_lse",
)


@call("npu_fused_infer_attention_score", "_npu_fused_infer_attention_score_get_max_workspace")
def fused_infer_attention(d: Draw) -> Call:
    return attention(d, FIRST)


@call("npu_fused_infer_attention_score_v2", "_npu_fused_infer_attention_score_v2_get_max_workspace")
def fused_infer_attention_v2(d: Draw) -> Call:
    args, how = attention(d, SECOND)
    return args, how | d.given(learnable_sink=lambda: d.normal(how["num_query_heads"]))


def pages(d: Draw) -> tuple[Call, tuple[int, ...], torch.dtype]:
    """Returns a call with packed queries and pages of keys, and the size and dtype of its result."""
    batch, n, dtype = d.size(1, 3), 4 * d.size(1, 2), d.dtype()
    lengths, heads = [d.size(0, 3) for _ in range(batch)], KEY_HEADS * d.size(1, 2)
    rows = max(sum(lengths), 1)
    query_ends = [sum(lengths[: i + 1]) for i in range(batch - 1)] + [rows]
    cache = [d.normal(5, 4, KEY_HEADS * n, dtype=dtype) for _ in range(2)]
    how = {"num_heads": heads, "num_key_value_heads": KEY_HEADS, "input_layout": "TND", "block_size": 4}
    how |= {"block_table": d.integers(0, 5, batch, 2, dtype=torch.int32), "actual_seq_lengths": query_ends}
    how |= {"actual_seq_lengths_kv": [d.size(0, 8) for _ in range(batch)], "sparse_mode": 3}
    return ((d.normal(rows, heads, n, dtype=dtype), *cache), how), (rows, heads, n), dtype


@call("npu_fused_infer_attention_score.default")
def paged_attention(d: Draw) -> Call:
    (args, how), _, _ = pages(d)
    return args, how | {"softmax_lse_flag": d.flag()}


@call("npu_fused_infer_attention_score.out")
def paged_attention_out(d: Draw) -> Call:
    (args, how), size, dtype = pages(d)
    flag = d.flag()
    statistics = written(size[0], size[1], 1) if flag else written(0)
    return args, how | {"softmax_lse_flag": flag, "out": [written(*size, dtype=dtype), statistics]}


@call("npu_prompt_flash_attention")
def prompt_flash_attention(d: Draw) -> Call:
    batch, rows, n, dtype, layout = d.size(), d.size(), 4 * d.size(1, 2), d.dtype(), d.choice("BSH", "BSND", "BNSD")
    args = [arranged(d, layout, batch, KEY_HEADS, rows, n, dtype) for _ in range(3)]
    how = {"num_heads": KEY_HEADS, "scale_value": 0.5, "input_layout": layout, "next_tokens": d.choice(0, 65535)}
    return tuple(args), how


@call("npu_incre_flash_attention")
def incre_flash_attention(d: Draw) -> Call:
    batch, columns, n, dtype = d.size(), d.size(), 4 * d.size(1, 2), d.dtype()
    layout = d.choice("BSH", "BSND", "BNSD")
    rows = [arranged(d, layout, batch, KEY_HEADS, length, n, dtype) for length in (1, columns, columns)]
    lengths = d.given(actual_seq_lengths=lambda: [d.size(0, columns) for _ in range(batch)])
    return tuple(rows), {"num_heads": KEY_HEADS, "scale_value": 0.5, "input_layout": layout} | lengths


@call("npu_fusion_attention")
def fusion_attention(d: Draw) -> Call:
    batch, rows, columns, n, dtype = d.size(1, 3), d.size(), d.size(), 4 * d.size(1, 2), d.dtype()
    layout, heads = d.choice("BSH", "BSND", "BNSD", "SBH", "TND"), KEY_HEADS * d.size(1, 2)
    args = (arranged(d, layout, batch, heads, rows, n, dtype),
            *(arranged(d, layout, batch, KEY_HEADS, columns, n, dtype) for _ in range(2)))  # fmt: skip
    how: dict[str, Any] = {"scale": 0.5}
    if layout == "TND":
        how |= {"actual_seq_qlen": ends(d, rows, batch), "actual_seq_kvlen": ends(d, columns, batch)}
    elif d.flag():
        how |= {"atten_mask": d.integers(0, 2, rows, columns).bool()}
    return (*args, heads, layout), how


@call("npu_attention_update")
def attention_update(d: Draw) -> Call:
    parts, rows, n, dtype = d.size(1, 3), d.size(), 8 * d.size(1, 2), d.dtype()
    lse = [d.normal(rows) for _ in range(parts)]
    return (lse, [d.normal(rows, n, dtype=dtype) for _ in range(parts)], d.choice(0, 1)), {}


def of_layout(d: Draw, layout: str, batch: int, rows: int, *size: int) -> torch.Tensor:
    return d.normal(*((batch, rows) if layout == "BSND" else (rows,)), *size)


def sequences(d: Draw, names: tuple[str, str]) -> tuple[str, str, int, int, int, dict[str, Any]]:
    """Returns the layouts of queries and keys, the number of sequences, the rows of both, and matching arguments."""
    batch, rows, columns = d.size(1, 3), d.size(), d.size()
    query, key = d.choice(("BSND", "BSND"), ("TND", "TND"), ("TND", "PA_BSND"), ("BSND", "PA_BSND"))
    how: dict[str, Any] = {"layout_query": query, names[0]: key, "sparse_mode": d.choice(0, 3)}
    if query == "TND":
        how["actual_seq_lengths_query"] = whole(ends(d, rows, batch)).int()
    if key == "TND":
        how[names[1]] = whole(ends(d, columns, batch)).int()
    if key == "PA_BSND":
        how[names[1]] = whole([d.size(0, 6) for _ in range(batch)]).int()
        how["block_table"] = d.integers(0, 4, batch, 2, dtype=torch.int32)
    return query, key, batch, rows, columns, how


def keys(d: Draw, layout: str, batch: int, columns: int, *size: int) -> torch.Tensor:
    return d.normal(4, 3, *size) if layout == "PA_BSND" else of_layout(d, layout, batch, columns, *size)


@call("npu_lightning_indexer")
def lightning_indexer(d: Draw) -> Call:
    query, key, batch, rows, columns, how = sequences(d, ("layout_key", "actual_seq_lengths_key"))
    heads, n = d.size(), d.size()
    args = (of_layout(d, query, batch, rows, heads, n), keys(d, key, batch, columns, 1, n))
    how |= {"sparse_count": d.size(), "return_value": d.flag()}
    return (*args, of_layout(d, query, batch, rows, heads)), how


@call("npu_sparse_flash_attention")
def sparse_flash_attention(d: Draw) -> Call:
    query, key, batch, rows, columns, how = sequences(d, ("layout_kv", "actual_seq_lengths_kv"))
    heads, n, rope = d.size(), d.size(), d.size()
    args = (of_layout(d, query, batch, rows, heads, n), *(keys(d, key, batch, columns, 1, n) for _ in range(2)))
    chosen = of_layout(d, query, batch, rows, 1, d.size()).abs().int()
    how |= {"return_softmax_lse": d.flag()}
    if d.flag():
        how |= {"query_rope": of_layout(d, query, batch, rows, heads, rope)}
        how |= {"key_rope": keys(d, key, batch, columns, 1, rope)}
    return (*args, chosen, 0.5), how


@call("npu_recurrent_gated_delta_rule")
def recurrent_gated_delta_rule(d: Draw) -> Call:
    heads, n, m, dtype = d.size(1, 2), d.size(), d.size(), torch.float32
    lengths = [d.size(1, 2) for _ in range(d.size(1, 3))]
    tokens = sum(lengths)
    args = [d.normal(tokens, heads, n, dtype=dtype) for _ in range(2)]
    args += [d.normal(tokens, 2 * heads, m, dtype=dtype), written(7, 2 * heads, m, n)]
    how = {
        "actual_seq_lengths": whole(lengths).int(),
        "ssm_state_indices": d.integers(0, 7, tokens).int(),
        "scale": 0.5,
    }
    how |= {"beta": d.positive(tokens, 2 * heads)} | d.given(g=lambda: d.normal(tokens, 2 * heads))
    return tuple(args), how


@call("npu_chunk_gated_delta_rule")
def chunk_gated_delta_rule(d: Draw) -> Call:
    heads, n, m = d.size(1, 2), d.size(), d.size()
    lengths = [d.size(1, 2) for _ in range(d.size(1, 3))]
    tokens = sum(lengths)
    args = [d.normal(tokens, heads, n) for _ in range(2)]
    how = {"actual_seq_lengths": whole(lengths).int(), "beta": d.positive(tokens, 2 * heads)}
    how |= d.given(initial_state=lambda: d.normal(len(lengths), 2 * heads, m, n))
    return (*args, d.normal(tokens, 2 * heads, m)), how
