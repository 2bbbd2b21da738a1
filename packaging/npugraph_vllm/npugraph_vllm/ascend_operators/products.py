# SPDX-License-Identifier: Apache-2.0
"""Matrix products, of rows in the order of experts too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite

npu = torch.ops.npu

# The value of swiglu_mode for halves that are cut at a limit, of which silu(alpha * first) * (second + bias) is made.
CUT_HALVES = 2


@composite("batch_matmul_transpose")
def batch_matmul_transpose(
    tensor_a: Tensor, tensor_b: Tensor, tensor_c: Tensor, format_mode: str | None, quant_mode: str | None
) -> None:
    """c[i, b] = a[i, b] @ b[b]."""
    tensor_c.copy_(torch.bmm(tensor_a.transpose(0, 1), tensor_b).transpose(0, 1).view(tensor_c.shape))


@composite("grouped_matmul_swiglu_quant", "grouped_matmul_swiglu_quant_weight_nz")
def grouped_matmul_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    bias: Tensor | None,
    offset: Tensor | None,
    swiglu_limit: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """``group_list`` has the end of each group of rows. The third result has no elements, as in vllm-ascend."""
    if swiglu_limit > 0:
        results = _cut(x, [weight], weight_scale, x_scale, group_list, swiglu_limit)
    else:
        one = npu.npu_grouped_matmul_swiglu_quant
        results = one(x, weight, group_list, weight_scale, x_scale, bias=bias, offset=offset)[:2]
    return (*results, x.new_empty(0))


@composite("grouped_matmul_swiglu_quant_weight_nz_tensor_list")
def grouped_matmul_swiglu_quant_of_list(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    swiglu_limit: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Each expert has a weight of its own, so that experts can move between ranks."""
    scales = weight_scale[0] if len(weight_scale) == 1 else torch.stack([scale.flatten() for scale in weight_scale])
    return (*_cut(x, weight, scales, x_scale, group_list, swiglu_limit), x.new_empty(0))


@composite("grouped_matmul_swiglu_quant_v2")
def grouped_matmul_swiglu_quant_v2(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    smooth_scale: Tensor | None,
    bias: Tensor | None,
    dequant_mode: int | None,
    quant_mode: int | None,
    transpose_weight: bool,
    group_list_type: int,
    swiglu_limit: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """``group_list`` has the end or, with group_list_type 1, the size of each group of rows."""
    if dequant_mode or quant_mode:
        modes = f"dequant_mode is {dequant_mode} and quant_mode {quant_mode}"
        raise NotImplementedError(f"grouped_matmul_swiglu_quant_v2: {modes}; npugraph-vllm has it for 0 (rows in int8)")
    if transpose_weight:
        weight = [one.transpose(-1, -2) for one in weight]
    if swiglu_limit == 0:
        rest = {"smooth_scale": smooth_scale, "bias": bias, "group_list_type": group_list_type}
        return npu.npu_grouped_matmul_swiglu_quant_v2(x, weight, weight_scale, x_scale, group_list, **rest)
    (products,) = npu.npu_grouped_matmul(
        [x],
        weight,
        bias=None if bias is None else [bias],
        scale=weight_scale,
        per_token_scale=[x_scale.flatten()],
        group_list=group_list,
        split_item=3,
        group_type=0,
        group_list_type=group_list_type,
        output_dtype=torch.bfloat16,
    )
    gate, value = products.float().chunk(2, -1)
    cut = value.clamp(-swiglu_limit, swiglu_limit)
    gated = torch.nn.functional.silu(gate.clamp_max(swiglu_limit)) * cut
    return npu.npu_dynamic_quant(gated.to(products.dtype), smooth_scales=smooth_scale)


def _cut(
    x: Tensor, weight: list[Tensor], scales: Tensor, x_scale: Tensor, ends: Tensor, limit: float
) -> tuple[Tensor, Tensor]:
    (sums,) = npu.npu_grouped_matmul(
        [x], weight, group_list=ends, split_item=3, group_type=0, group_list_type=0, output_dtype=torch.int32
    )
    return npu.npu_dequant_swiglu_quant(
        sums,
        weight_scale=scales.float().view(len(ends), -1),
        activation_scale=x_scale,
        group_index=ends.diff(prepend=ends.new_zeros(1)),
        activate_left=True,
        quant_mode=1,
        swiglu_mode=CUT_HALVES,
        clamp_limit=limit if limit > 0 else float("inf"),
        glu_alpha=1.0,
        glu_bias=0.0,
    )
