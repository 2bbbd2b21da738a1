# SPDX-License-Identifier: Apache-2.0
"""Normalisations."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite

npu = torch.ops.npu


@composite("npu_add_rms_norm_bias")
def add_rms_norm_bias(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    y, rstd, x = npu.npu_add_rms_norm(x1, x2, gamma, epsilon)
    return (y if beta is None else y + beta), rstd, x


@composite("npu_gemma_rms_norm")
def gemma_rms_norm(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    return npu.npu_gemma_rms_norm(x, gamma, epsilon)


@composite("npu_rms_norm_cast")
def rms_norm_cast(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    y, _ = npu.npu_rms_norm(x, gamma, epsilon)
    return y, y.float()


@composite("npu_rms_norm_dynamic_quant")
def rms_norm_dynamic_quant(
    x: Tensor, gamma: Tensor, smooth_scale: Tensor | None, beta: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    y, _ = npu.npu_rms_norm(x, gamma, epsilon)
    return npu.npu_dynamic_quant(y if beta is None else y + beta, smooth_scales=smooth_scale)


@composite("matmul_allreduce_add_rmsnorm")
def matmul_allreduce_add_rms_norm(
    x1: Tensor,
    x2: Tensor,
    residual: Tensor,
    gamma: Tensor,
    group_tp: str,
    tp_rank_size: int,
    tp_rank_id: int,
    epsilon: float,
    is_trans_b: bool,
    is_gather_add_out: bool,
) -> tuple[Tensor, Tensor]:
    """Every rank has all of both results, whether or not ``is_gather_add_out`` asks for all of the sum."""
    product = npu.npu_mm_all_reduce_base(x1, x2.t() if is_trans_b else x2, group_tp)
    y, _, x = npu.npu_add_rms_norm(product, residual, gamma, epsilon)
    return y, x
