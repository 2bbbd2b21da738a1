# SPDX-License-Identifier: Apache-2.0
"""The optimizer LAMB."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import Stepwise, averages

__all__ = ["NpuFusedLamb"]

_LARGEST_NORM = 10.0  # the largest norm of weights with which a step is scaled


class NpuFusedLamb(Stepwise):
    """LAMB (You et al., 2020, version 3, without bias correction): steps of Adam, scaled to the norm of each tensor.

    Args:
        adam: whether steps are left without that scale.
        use_global_grad_norm: whether gradients are divided by the norm of all of them if it is above 1.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
    ):
        self._begin(locals())

    def _prepare(self) -> None:
        self._divisor: torch.Tensor | float = 1.0
        grads = [param.grad for param in self._tensors() if param.grad is not None]
        if self.defaults["use_global_grad_norm"] and grads:
            self._divisor = torch.nn.utils.get_total_norm(grads).clamp(min=1)

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        grad = grad / self._divisor
        mean, square = averages(state, grad, *group["betas"])
        change = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * param
        weight_norm = param.norm().clamp(0, _LARGEST_NORM)
        change_norm = change.norm()
        trust = torch.where((weight_norm == 0) | (change_norm == 0), 1, weight_norm / change_norm)
        state.update(weight_norm=weight_norm, adam_norm=change_norm, trust_ratio=trust)
        param.sub_(group["lr"] * change * (1 if group["adam"] else trust))
