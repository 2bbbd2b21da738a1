# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of matrix products, also of products of groups of rows."""

from __future__ import annotations

import torch

from tests.python.device.drawn_calls import Call, Draw, call, whole


@call("npu_linear")
def linear(d: Draw) -> Call:
    k, n, dtype = d.size(), d.size(), d.dtype()
    return (
        d.normal(*d.sizes(), k, dtype=dtype),
        d.normal(n, k, dtype=dtype),
        d.maybe(lambda: d.normal(n, dtype=dtype)),
    ), {}


@call("npu_quant_matmul")
def quant_matmul(d: Draw) -> Call:
    batch, m, k, n = d.sizes(0, 2), d.rows(), d.size(), d.size()
    x1, x2 = d.int8(*batch, m, k), d.int8(*d.choice((), batch), k, n)
    if d.flag():  # int4 weights, with a scale for each group of rows
        group, groups = d.choice(4, 256), d.size(1, 3)
        rows = group * groups - d.choice(0, 1)
        words = d.integers(-999, 999, rows, n, dtype=torch.int32)
        how = {"pertoken_scale": d.positive(*d.choice((m,), (m, 1))), "output_dtype": torch.bfloat16}
        return (d.int8(m, rows), words, d.positive(groups, n * 8)), how | {"group_sizes": [0, 0, group]}
    if d.flag():
        how = d.given(pertoken_scale=lambda: d.positive(m), bias=lambda: d.integers(-99, 99, n, dtype=torch.int32))
        return (x1, x2, d.positive(d.choice(1, n))), how | {"output_dtype": d.choice(torch.float16, torch.bfloat16)}
    return (x1, x2, d.positive(n)), d.given(offset=lambda: d.normal(n))


@call("npu_transpose_batchmatmul")
def transpose_batchmatmul(d: Draw) -> Call:
    b, m, k, n, dtype = d.size(), d.rows(), d.size(), d.size(), d.dtype()
    first, second = d.choice([0, 1, 2], [1, 0, 2]), d.choice([0, 1, 2], [0, 2, 1])
    x = d.normal(*((b, m) if first[0] == 0 else (m, b)), k, dtype=dtype)
    weight = d.normal(b, *((k, n) if second[1] == 1 else (n, k)), dtype=dtype)
    how = {"perm_x1": first, "perm_x2": second, "perm_y": [1, 0, 2]}
    return (x, weight), how | ({"batch_split_factor": b} if d.flag() else {})


@call("npu_transpose_quant_batchmatmul")
def transpose_quant_batchmatmul(d: Draw) -> Call:
    b, m, k, n = d.size(), d.rows(), d.size(), d.size()
    x1, x2 = d.normal(m, b, k).to(torch.float8_e4m3fn), d.normal(b, k, n).to(torch.float8_e4m3fn)
    scales = {"x1_scale": d.positive(m), "x2_scale": d.positive(n)}
    return (x1, x2, d.choice(torch.float16, torch.bfloat16)), scales


@call("npu_weight_quant_batchmatmul")
def weight_quant_batchmatmul(d: Draw) -> Call:
    m, groups, dtype = d.rows(), d.size(1, 3), d.choice(torch.float16, torch.bfloat16)
    words = d.flag()
    size, n = d.size() if groups == 1 else 32, d.size()
    weight = d.integers(-999, 999, size * groups, n, dtype=torch.int32) if words else d.int8(size * groups, n)
    columns = n * 8 if words else n
    scale = (columns,) if groups == 1 else (groups, columns)
    how = d.given(antiquant_offset=lambda: d.normal(*scale, dtype=dtype), bias=lambda: d.normal(columns, dtype=dtype))
    how |= {} if groups == 1 else {"antiquant_group_size": size}
    return (d.normal(m, size * groups, dtype=dtype), weight, d.positive(*scale, dtype=dtype)), how


def group_list(d: Draw, groups: int, rows: int) -> tuple[torch.Tensor, int]:
    """Returns a group list for at most ``rows`` rows, and its type."""
    ends = [min(i + 1, rows) for i in range(groups)]
    if d.flag():
        return whole(ends), 0
    return whole([end - start for start, end in zip([0, *ends], ends, strict=False)]), 1


@call("npu_grouped_matmul")
def grouped_matmul(d: Draw) -> Call:
    groups, m, k, n, dtype = d.size(1, 3), d.rows(), d.size(), d.size(), d.dtype()
    ends, kind = group_list(d, groups, m)
    how = {"group_list": ends, "group_list_type": kind, "split_item": d.choice(2, 3), "group_type": 0}
    if d.flag():  # a list of ints
        how |= {"group_list": ends.tolist(), "split_item": d.choice(0, 1, 2, 3)}
    if d.flag():  # weights of different widths
        how |= {"group_list": ends.tolist(), "split_item": d.choice(0, 1), "group_type": d.choice(-1, 0)}
        return ([d.normal(m, k, dtype=dtype)], [d.normal(k, d.size(), dtype=dtype) for _ in range(groups)]), how
    if d.flag():  # groups of the dimension that is summed over, each with its own weight
        sizes = [d.rows() for _ in range(groups)]
        how |= {"group_list": d.choice(sizes, whole(sizes)), "group_list_type": 1, "group_type": 2}
        return ([d.normal(m, sum(sizes), dtype=dtype)], [d.normal(size, n, dtype=dtype) for size in sizes]), how
    if d.flag():
        return ([d.normal(m, k, dtype=dtype)], [d.normal(groups, k, n, dtype=dtype)]), how
    scales = {"scale": [d.positive(groups, n)], "per_token_scale": [d.positive(m)]}
    return ([d.int8(m, k)], [d.int8(groups, k, n)]), how | scales | {"output_dtype": torch.bfloat16}


@call("npu_grouped_matmul_swiglu_quant")
def grouped_matmul_swiglu_quant(d: Draw) -> Call:
    groups, m, k, n = d.size(1, 3), d.rows(), d.size(), 2 * d.size()
    ends = whole([min(i + 1, m) for i in range(groups)])
    return (d.int8(m, k), d.int8(groups, k, n), ends, d.positive(groups, n), d.positive(m)), {}


@call("npu_grouped_matmul_swiglu_quant_v2")
def grouped_matmul_swiglu_quant_v2(d: Draw) -> Call:
    groups, m, k, n = d.size(1, 3), d.rows(), d.size(), 2 * d.size()
    ends, kind = group_list(d, groups, m)
    args = (d.int8(m, k), [d.int8(groups, k, n)], [d.positive(groups, n)], d.positive(m), ends)
    return args, {"group_list_type": kind} | d.given(smooth_scale=lambda: d.positive(groups, n // 2))


@call("npu_grouped_matmul_finalize_routing")
def grouped_matmul_finalize_routing(d: Draw) -> Call:
    groups, m, k, n, rows = d.size(1, 3), d.rows(), d.size(), d.size(), d.size()
    ends, kind = group_list(d, groups, m)
    how = {"scale": d.positive(groups, n), "pertoken_scale": d.positive(m), "logit": d.normal(m)}
    how |= {"row_index": d.integers(0, rows, m), "output_bs": rows, "group_list_type": kind}
    how |= d.given(dtype=lambda: torch.bfloat16, shared_input=lambda: d.normal(rows, n, dtype=torch.bfloat16))
    return (d.int8(m, k), d.int8(groups, k, n), ends), how
