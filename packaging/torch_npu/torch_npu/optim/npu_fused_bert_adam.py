# SPDX-License-Identifier: Apache-2.0
"""Adam in the form that BERT was trained with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import REQUIRED, Stepwise, averages

__all__ = ["NpuFusedBertAdam"]

# Each schedule maps the share of the run that is done to a factor of the rate. In the share `warmup` it rises from 0.
SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "warmup_cosine": lambda x, warmup: x / warmup if x < warmup else 0.5 * (1 + math.cos(math.pi * x)),
    "warmup_constant": lambda x, warmup: x / warmup if x < warmup else 1.0,
    "warmup_linear": lambda x, warmup: x / warmup if x < warmup else max((x - 1) / (warmup - 1), 0),
    "warmup_poly": lambda x, warmup: x / warmup if x < warmup else (1 - x) ** 0.5,
}


class NpuFusedBertAdam(Stepwise):
    """Adam without bias correction, with decay apart from gradients and with a schedule (Devlin et al., BERT, 2019).

    Raises ValueError for settings outside of their ranges.

    Args:
        lr: the rate, which must be given.
        warmup: the share of ``t_total`` steps in which the rate rises; -1 for none.
        t_total: the length of the run in steps; -1 for a rate that stays.
        max_grad_norm: the gradient of a tensor is scaled down to this norm if it is longer; -1 for no limit.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = REQUIRED,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.999,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ):
        if schedule not in SCHEDULES:
            raise ValueError(f"NpuFusedBertAdam: schedule is {schedule!r}, allowed are {', '.join(SCHEDULES)}")
        if not (0 <= warmup < 1 or warmup == -1):
            raise ValueError(f"NpuFusedBertAdam: warmup is {warmup}, and must be from 0 to 1, or -1")
        self._begin(locals())

    @staticmethod
    def _rate(done: int, group: dict[str, Any]) -> float:
        if group["t_total"] == -1:
            return group["lr"]
        return group["lr"] * SCHEDULES[group["schedule"]](done / group["t_total"], group["warmup"])

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["max_grad_norm"] > 0:
            grad = grad * (group["max_grad_norm"] / (grad.norm() + 1e-6)).clamp(max=1)
        mean, square = averages(state, grad, group["b1"], group["b2"])
        change = mean / (square.sqrt() + group["e"]) + group["weight_decay"] * param
        param.sub_(change, alpha=self._rate(state["step"] - 1, group))
