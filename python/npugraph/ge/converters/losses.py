# SPDX-License-Identifier: Apache-2.0
"""Converters of losses and of their gradients."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, integers, known, operand, size_at
from npugraph.ge.graph import Tensor

aten = torch.ops.aten

_REDUCTIONS = ("none", "mean", "sum")  # by their numbers in ATen


@register_fx_node_ge_converter(aten.mse_loss.default)
def mse_loss(self: Tensor, target: Tensor, reduction: int = 1, *, meta_outputs: Any) -> Tensor:
    dtype = meta_outputs.dtype
    return ge.MseLoss(cast(self, dtype), cast(target, dtype), reduction=_REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.mse_loss_backward.default)
def mse_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, *, meta_outputs: Any
) -> Tensor:
    operands = (cast(x, meta_outputs.dtype) for x in (self, target, grad_output))
    return ge.MseLossGrad(*operands, reduction=_REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.nll_loss_forward.default)
def nll_loss(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: Any, *, meta_outputs: Any
) -> Any:
    return ge.NLLLoss(
        self, target, weight, reduction=_REDUCTIONS[reduction], ignore_index=known("ignore_index", ignore_index)
    )


@register_fx_node_ge_converter(aten.nll_loss_backward.default)
def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: Any,
    total_weight: Tensor,
    *,
    meta_outputs: Any,
) -> Tensor:
    """Ascend's operator needs the weights of all classes."""
    classes = integers([size_at(self, -1)])
    return ge.NLLLossGrad(
        self,
        grad_output,
        target,
        ge.Fill(classes, operand(1, self.dtype)) if weight is None else weight,
        total_weight,
        reduction=_REDUCTIONS[reduction],
        ignore_index=known("ignore_index", ignore_index),
    )
