# SPDX-License-Identifier: Apache-2.0
"""What the fused optimizers have in common: torch's own rules, over lists of tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from torch_npu.utils.combine_tensors import npu_combine_tensors

__all__ = ["NpuFusedOptimizerBase"]


class NpuFusedOptimizerBase(Optimizer):
    """An optimizer of tensors of npu that updates many at once."""

    def __init__(self, params: Iterable[Any], default: dict[str, Any]):
        super().__init__(params, default)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update, by the class that this one is mixed into."""
        return super().step(closure)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Gradients become zeros, or None; they keep their memory where they are zeros."""
        super().zero_grad(set_to_none)

    def _tensors(self) -> list[torch.Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def get_combined_params(self) -> list[torch.Tensor | None]:
        """For each group of parameters one tensor that they all lie in from now on, if they have one type."""
        return [npu_combine_tensors([param.data for param in group["params"]]) for group in self.param_groups]

    def get_combined_grads(self) -> list[torch.Tensor | None]:
        """For each group one tensor that all gradients lie in from now on, if they have one type."""
        groups = [[param.grad for param in group["params"] if param.grad is not None] for group in self.param_groups]
        return [npu_combine_tensors(group) for group in groups]

    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """``torch.nn.utils.clip_grad_norm_`` of all parameters; returns the norm that it found."""
        return torch.nn.utils.clip_grad_norm_(self._tensors(), max_norm, norm_type)


class _Stepwise(NpuFusedOptimizerBase):
    """An optimizer whose rule is written here: ``_update`` says how one parameter changes."""

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError

    def _prepare(self) -> None:
        """What a step does before its updates."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; returns what ``closure`` does."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._prepare()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if param.grad.is_sparse:
                    raise RuntimeError(f"{type(self).__name__}: gradients must be dense, got a sparse one")
                self._update(param, param.grad, self.state[param], group)
        return loss


def _check_range(name: str, value: float, allowed: bool, text: str) -> None:
    if not allowed:
        raise ValueError(f"{name} is {value}, and must be {text}")


def check_rates(lr: float, eps: float, betas: tuple[float, float] = (0, 0), weight_decay: float = 0) -> None:
    """Raises ValueError for what no rule takes."""
    _check_range("lr", lr, lr >= 0, "at least 0")
    _check_range("eps", eps, eps >= 0, "at least 0")
    for index, beta in enumerate(betas):
        _check_range(f"betas[{index}]", beta, 0 <= beta < 1, "at least 0 and below 1")
    _check_range("weight_decay", weight_decay, weight_decay >= 0, "at least 0")
