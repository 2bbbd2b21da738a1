# SPDX-License-Identifier: Apache-2.0
"""Hyper-connections: layers between several streams of hidden states, [.., streams, size]."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite

npu = torch.ops.npu


def _parts(
    x: Tensor, hc_fn: Tensor, hc_scale: Tensor, hc_base: Tensor, hc_sinkhorn_iters: int, norm_eps: float, hc_eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input of the layer, the weights of its output and of the streams after it, and the weights before it."""
    y, post, logits, _, _, before = npu.npu_mhc_pre(
        x, hc_fn, hc_scale, hc_base, norm_eps=norm_eps, hc_eps=hc_eps, out_flag=1
    )
    comb, _, _ = npu.npu_mhc_sinkhorn(logits, eps=hc_eps, num_iters=hc_sinkhorn_iters)
    return y, post, comb, before


@composite("npu_hc_pre_v2")
def hc_pre_v2(hc_mult: int, **arguments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _parts(**arguments)[:3]


@composite("npu_hc_pre_v3")
def hc_pre_v3(x: Tensor, pre_mix: Tensor | None, hc_mult: int, **arguments: Tensor) -> tuple[Tensor, ...]:
    """The weights before the layer are those of the previous layer, ``pre_mix``. The first layer has none and takes the
    first stream; the weights of the next one are the fourth result."""
    _, post, comb, before = _parts(x, **arguments)
    y = x.select(-2, 0) if pre_mix is None else (pre_mix.unsqueeze(-1) * x.float()).sum(-2).to(x.dtype)
    return y, post, comb, before


@composite("npu_hc_post")
def hc_post(x: Tensor, residual: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    return npu.npu_mhc_post(residual, comb, x, post)
