# SPDX-License-Identifier: Apache-2.0
"""RMSprop in the form of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import Stepwise

__all__ = ["NpuFusedRMSpropTF"]


class NpuFusedRMSpropTF(Stepwise):
    """RMSprop whose averages of squares start at one and whose epsilon is inside of the root
    (tf.keras.optimizers.RMSprop).

    Args:
        decoupled_decay: whether weights decay apart from gradients (Loshchilov and Hutter, 2019).
        lr_in_momentum: whether the buffer of momentum holds steps with their rate, as TensorFlow's does.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
    ):
        self._begin(locals())

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["square_avg"] = torch.ones_like(param)
            state["momentum_buffer"] = torch.zeros_like(param)
            state["grad_avg"] = torch.zeros_like(param)
        rate, share = group["lr"], 1 - group["alpha"]
        if group["weight_decay"] and group["decoupled_decay"]:
            param.mul_(1 - rate * group["weight_decay"])
        elif group["weight_decay"]:
            grad = grad + group["weight_decay"] * param
        squares = state["square_avg"]
        squares.add_(grad * grad - squares, alpha=share)
        if group["centered"]:
            means = state["grad_avg"]
            means.add_(grad - means, alpha=share)
            squares = squares - means * means
        change = grad / (squares + group["eps"]).sqrt()
        buffer = state["momentum_buffer"]
        if group["momentum"] <= 0:
            param.sub_(change, alpha=rate)
        elif group["lr_in_momentum"]:
            param.sub_(buffer.mul_(group["momentum"]).add_(change, alpha=rate))
        else:
            param.sub_(buffer.mul_(group["momentum"]).add_(change), alpha=rate)
