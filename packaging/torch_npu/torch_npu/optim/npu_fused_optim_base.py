# SPDX-License-Identifier: Apache-2.0
"""The common parts of the fused optimizers: torch's own rules over lists of tensors at once, and rules that are written
here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from torch_npu.utils.combine_tensors import npu_combine_tensors

__all__ = ["NpuFusedOptimizerBase"]

REQUIRED = object()  # the default rate of rules whose rate must be given
_NO_SETTINGS = ("self", "params", "__class__")
_AT_LEAST_0 = ("lr", "eps", "e", "weight_decay")


class NpuFusedOptimizerBase(Optimizer):
    """An optimizer of tensors of npu that updates many at once."""

    def __init__(self, params: Iterable[Any], default: dict[str, Any]):
        super().__init__(params, default)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one update, by the class that this one is mixed into."""
        return super().step(closure)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Sets gradients to zeros, or to None. Gradients that become zeros keep their memory."""
        super().zero_grad(set_to_none)

    def _tensors(self) -> list[torch.Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def get_combined_params(self) -> list[torch.Tensor | None]:
        """Moves the parameters of each group into one tensor. Returns these tensors, with None for a group without
        elements. Raises ValueError for a group of several types."""
        return [npu_combine_tensors([param.data for param in group["params"]]) for group in self.param_groups]

    def get_combined_grads(self) -> list[torch.Tensor | None]:
        """Moves the gradients of each group into one tensor. Returns these tensors, with None for a group without
        elements. Raises ValueError for a group of several types."""
        groups = [[param.grad for param in group["params"] if param.grad is not None] for group in self.param_groups]
        return [npu_combine_tensors(group) for group in groups]

    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Calls ``torch.nn.utils.clip_grad_norm_`` on all parameters. Returns the norm that it found."""
        return torch.nn.utils.clip_grad_norm_(self._tensors(), max_norm, norm_type)


def _settings(arguments: dict[str, Any]) -> dict[str, Any]:
    chosen = {name: value for name, value in arguments.items() if name not in _NO_SETTINGS}
    if chosen["lr"] is REQUIRED:
        raise ValueError(f"{type(arguments['self']).__name__}: lr must be given")
    return chosen


def follow(rule: type[Optimizer], arguments: dict[str, Any]) -> None:
    """Makes an optimizer follow torch's class ``rule``, over lists of tensors at once.

    ``arguments`` are the locals() of its ``__init__``, which has the arguments of ``rule`` under the same names.
    """
    rule.__init__(arguments["self"], arguments["params"], **_settings(arguments), foreach=True)


class Stepwise(NpuFusedOptimizerBase):
    """An optimizer whose rule is written here. ``_update`` changes one parameter."""

    def _begin(self, arguments: dict[str, Any]) -> None:
        """``arguments`` are the locals() of ``__init__``: the parameters, and the settings that each group of
        parameters may override. Raises ValueError for settings outside of their ranges."""
        chosen = _settings(arguments)
        for name in _AT_LEAST_0:
            _check_range(name, chosen.get(name, 0), 0, None)
        for index, beta in enumerate(chosen.get("betas", ())):
            _check_range(f"betas[{index}]", beta, 0, 1)
        for name in ("b1", "b2"):
            _check_range(name, chosen.get(name, 0), 0, 1)
        NpuFusedOptimizerBase.__init__(self, arguments["params"], chosen)

    def _update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError

    def _prepare(self) -> None:
        """Does the work of a step before its updates."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one update. Returns the result of ``closure``. Raises RuntimeError for sparse gradients."""
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


def averages(
    state: dict[str, Any], grad: torch.Tensor, beta1: float, beta2: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the exponential averages of gradients and of their squares after one more step, and counts it in
    ``state``."""
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(grad), exp_avg_sq=torch.zeros_like(grad))
    state["step"] += 1
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.mul_(beta1).add_(grad, alpha=1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    return mean, square


def _check_range(name: str, value: float, low: float, end: float | None) -> None:
    if value < low or (end is not None and value >= end):
        below = "" if end is None else f" and below {end}"
        raise ValueError(f"{name} is {value}, and must be at least {low}{below}")
