# SPDX-License-Identifier: Apache-2.0
"""Choices of experts, and the order of rows by experts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite

npu = torch.ops.npu

# The value of norm_type for scores sqrt(softplus(x)).
SQRT_SOFTPLUS = 2


@composite("moe_gating_top_k")
def moe_gating_top_k(x: Tensor, bias_opt: Tensor | None, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    return npu.npu_moe_gating_top_k(x, bias=bias_opt, **options)


@composite("moe_gating_top_k_hash")
def moe_gating_top_k_hash(
    x: Tensor,
    k: int,
    bias: Tensor | None,
    input_ids: Tensor | None,
    tid2eid: Tensor | None,
    norm_type: int,
    bias_vl: Tensor | None = None,
    image_sentinel_lo: int = 0,
    image_sentinel_count: int = 0,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """As npu_moe_gating_top_k, with one more kind of scores. Tokens of images, of numbers from ``image_sentinel_lo``
    on, take the experts of the greatest score + bias_vl, and not those of the table ``tid2eid``."""
    if norm_type != SQRT_SOFTPLUS:
        given = {"bias": bias, "input_ids": input_ids, "tid2eid": tid2eid, "norm_type": norm_type}
        return npu.npu_moe_gating_top_k(x, k, **given, **options)
    if options["group_count"] != 1:
        raise ValueError(
            f"moe_gating_top_k_hash: group_count is {options['group_count']}, allowed with norm_type 2 is 1"
        )
    score = torch.nn.functional.softplus(x.float()).sqrt()
    biased = score if bias is None else score + bias.float()
    image = None
    if bias_vl is not None and input_ids is not None:
        image = (input_ids >= image_sentinel_lo) & (input_ids < image_sentinel_lo + image_sentinel_count)
        biased = torch.where(image.unsqueeze(-1), score + bias_vl.float(), biased)
    experts = biased.topk(k, dim=-1).indices
    if tid2eid is not None and input_ids is not None:
        listed = tid2eid[input_ids if image is None else input_ids.masked_fill(image, 0)].to(experts.dtype)
        experts = listed if image is None else torch.where(image.unsqueeze(-1), experts, listed)
    y = score.gather(-1, experts)
    y = y / (y.sum(-1, keepdim=True) + options["eps"]) * options["routed_scaling_factor"]
    return y.to(x.dtype), experts.int(), score


@composite("npu_moe_init_routing_custom")
def moe_init_routing(x: Tensor, expert_idx: Tensor, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return npu.npu_moe_init_routing_v2(x, expert_idx, **options)
