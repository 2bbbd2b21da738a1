# SPDX-License-Identifier: Apache-2.0
"""LAMB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import _Stepwise, check_rates

__all__ = ["NpuFusedLamb"]

_LARGEST_NORM = 10.0  # of weights, when they scale a step


class NpuFusedLamb(_Stepwise):
    """LAMB (You et al., 2020, version 3, without bias correction): steps of Adam, scaled to the norm of each tensor.

    Args:
        adam: without that scale.
        use_global_grad_norm: gradients are divided by the norm of all of them where it is above 1.
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
        check_rates(lr, eps, betas, weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.adam = adam
        self.use_global_grad_norm = use_global_grad_norm

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; returns what ``closure`` does."""
        return super().step(closure)

    def _prepare(self) -> None:
        self._divisor: torch.Tensor | float = 1.0
        grads = [param.grad for param in self._tensors() if param.grad is not None]
        if self.use_global_grad_norm and grads:
            self._divisor = torch.nn.utils.get_total_norm(grads).clamp(min=1)

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros_like(param))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad = grad / self._divisor
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(beta1).add_(grad, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        change = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * param
        weight_norm = param.norm().clamp(0, _LARGEST_NORM)
        change_norm = change.norm()
        trust = torch.where((weight_norm == 0) | (change_norm == 0), 1, weight_norm / change_norm)
        state.update(weight_norm=weight_norm, adam_norm=change_norm, trust_ratio=trust)
        param.sub_(group["lr"] * change * (1 if self.adam else trust))
