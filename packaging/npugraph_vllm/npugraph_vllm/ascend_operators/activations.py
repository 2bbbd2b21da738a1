# SPDX-License-Identifier: Apache-2.0
"""Activations with quantisation of their results."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite
from npugraph_vllm.ascend_operators.products import CUT_HALVES


@composite("npu_dequant_swiglu_quant")
def dequant_swiglu_quant(
    x: Tensor, swiglu_mode: int, clamp_limit: float, glu_alpha: float, glu_bias: float, **options: Any
) -> tuple[Tensor, Tensor]:
    """Unlike in the operator of npu, the parts of x are its halves in mode 1 too, and a limit of 0 cuts nothing."""
    if swiglu_mode == 1:
        options |= {
            "swiglu_mode": CUT_HALVES,
            "clamp_limit": clamp_limit if clamp_limit > 0 else float("inf"),
            "glu_alpha": glu_alpha,
            "glu_bias": glu_bias,
        }
    return torch.ops.npu.npu_dequant_swiglu_quant(x, **options)
