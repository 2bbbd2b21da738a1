# SPDX-License-Identifier: Apache-2.0
"""The optimizer AdamP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import Stepwise, averages

__all__ = ["NpuFusedAdamP"]


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(tensor.shape[0], -1)


def _one_row(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(1, -1)


def _projected(
    param: torch.Tensor, grad: torch.Tensor, change: torch.Tensor, delta: float, ratio: float, eps: float
) -> tuple[torch.Tensor, float]:
    """Returns a change of ``param`` and the factor of its weight decay. If the gradient is about at right angles to
    ``param``, by rows or as a whole, the result is ``change`` without its part along ``param``, and else ``change``
    itself."""
    for view in (_rows, _one_row):
        weights = view(param)
        angle = torch.nn.functional.cosine_similarity(view(grad), weights, dim=1, eps=eps).abs()
        if angle.max() < delta / weights.shape[1] ** 0.5:
            unit = weights / (weights.norm(dim=1, keepdim=True) + eps)
            along = (view(change) * unit).sum(1, keepdim=True)
            return (view(change) - along * unit).view_as(change), ratio
    return change, 1.0


class NpuFusedAdamP(Stepwise):
    """AdamP (Heo et al., AdamP: Slowing Down the Slowdown for Momentum Optimizers on Scale-invariant Weights, 2021)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ):
        self._begin(locals())

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        mean, square = averages(state, grad, beta1, beta2)
        scale = (square / (1 - beta2 ** state["step"])).sqrt() + group["eps"]
        ahead = beta1 * mean + (1 - beta1) * grad if group["nesterov"] else mean
        change, ratio = ahead / scale, 1.0
        if param.dim() > 1:
            change, ratio = _projected(param, grad, change, group["delta"], group["wd_ratio"], group["eps"])
        if group["weight_decay"] > 0:
            param.mul_(1 - group["lr"] * group["weight_decay"] * ratio)
        param.sub_(change, alpha=group["lr"] / (1 - beta1 ** state["step"]))
