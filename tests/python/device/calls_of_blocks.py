# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of operators on blocks of values that share a scale."""

from __future__ import annotations

import torch

from tests.python.device.drawn_calls import Call, Draw, call, whole

FLOAT8 = torch.float8_e4m3fn, torch.float8_e5m2


def matrix(d: Draw, rows: int | None = None) -> torch.Tensor:
    return d.normal(d.size(1, 70) if rows is None else rows, 2 * d.size(1, 40), dtype=d.dtype())


@call("npu_dynamic_mx_quant")
def dynamic_mx_quant(d: Draw) -> Call:
    return (matrix(d),), {"axis": d.choice(-1, 0), "dst_type": d.choice(*FLOAT8, 296), "scale_alg": d.choice(0, 1)}


@call("npu_dynamic_block_mx_quant")
def dynamic_block_mx_quant(d: Draw) -> Call:
    return (matrix(d),), {"dst_type": d.choice(*FLOAT8, 296)}


@call("npu_dynamic_dual_level_mx_quant")
def dynamic_dual_level_mx_quant(d: Draw) -> Call:
    return (d.normal(d.rows(), d.choice(2, 64, 514), dtype=d.dtype()),), {}


def ends(d: Draw, rows: int) -> torch.Tensor:
    return whole([*sorted(d.size(0, rows) for _ in range(d.size(0, 2))), rows])


@call("npu_grouped_dynamic_mx_quant")
def grouped_dynamic_mx_quant(d: Draw) -> Call:
    x = matrix(d)
    return (x, ends(d, x.shape[0])), {"dst_type": d.choice(*FLOAT8, 296)}


@call("npu_grouped_dynamic_block_quant")
def grouped_dynamic_block_quant(d: Draw) -> Call:
    x = matrix(d)
    return (x, ends(d, x.shape[0])), {"row_block_size": d.size(), "col_block_size": d.choice(3, 16, 128)}


@call("npu_swiglu_mx_quant_with_dual_axis")
def swiglu_mx_quant(d: Draw) -> Call:
    x = d.normal(d.size(1, 70), 4 * d.size(1, 20), dtype=d.dtype())
    return (x,), {"activate_left": d.flag()} | d.given(group_index=lambda: ends(d, x.shape[0]))


@call("npu_swiglu_group_quant")
def swiglu_group_quant(d: Draw) -> Call:
    batch, n = d.sizes(1, 2), d.size(1, 40)
    how = {"block_size": d.choice(0, 16), "round_scale": d.flag(), "output_origin": d.flag()}
    return (d.normal(*batch, 2 * n, dtype=d.dtype()),), how | d.given(weight=lambda: d.positive(*batch))
