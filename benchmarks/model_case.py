# SPDX-License-Identifier: Apache-2.0
"""The models of the model set: how to build them, call them, and judge their outputs.

A :class:`ModelCase` has three sizes: ``tiny`` (real architecture, two layers or so, for tests), ``base`` (the published
base-size configuration, for benchmarks) and ``long`` (the same with longer texts). Weights and inputs are random with
fixed seeds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Inputs = dict[str, Any]
SIZES = ("tiny", "base", "long")

ERROR_FLOOR = 1e-5
ERROR_FACTORS = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}  # by the element type of the computation
ERROR_FACTOR = ERROR_FACTORS["float32"]


@dataclass(frozen=True)
class ModelCase:
    """One entry of the model set.

    ``make_model(size)`` builds the module. ``make_inputs(batch, size)`` makes fresh keyword arguments, equal for equal
    arguments, so that a module that writes into its inputs (a cache) can be called more than once.
    """

    name: str
    make_model: Callable[[str], torch.nn.Module]
    make_inputs: Callable[[int, str], Inputs]
    random_weights: bool = True

    def build(self, size: str = "tiny", seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
        """Returns the module in eval mode with parameters of ``dtype``. Leaves the global random state as it was."""
        check_size(size)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.make_model(size).eval().requires_grad_(False)
            if self.random_weights:
                disturb(model)
        return model.to(dtype)

    def inputs(self, batch: int = 1, size: str = "tiny", dtype: torch.dtype = torch.float32) -> Inputs:
        """Returns the keyword arguments of one call. Floating-point tensors have ``dtype``."""
        check_size(size)
        return cast_floating(self.make_inputs(batch, size), dtype)


def check_size(size: str) -> None:
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r}; known sizes: {', '.join(SIZES)}")


def disturb(model: torch.nn.Module) -> None:
    """Moves parameters and running statistics off their initial 0 or 1, so that leaving one out changes the results."""
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.02)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.add_(torch.randn_like(buffer), alpha=0.1)
        elif name.endswith("running_var"):
            buffer.mul_(1 + 0.2 * torch.rand_like(buffer))


def cast_floating(value: Any, dtype: torch.dtype) -> Any:
    """Returns ``value`` with every floating-point tensor inside lists, tuples, dicts and caches cast to ``dtype``.

    A key/value cache is changed in place.
    """
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: cast_floating(item, dtype) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(cast_floating(item, dtype) for item in value)
    if hasattr(value, "layers"):
        for layer in value.layers:
            vars(layer).update(cast_floating(vars(layer), dtype))
    return value


def flatten_outputs(output: Any) -> list[torch.Tensor]:
    """Returns all tensors of a model's output in a fixed order, including those inside key/value caches."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, Mapping):
        return [tensor for item in output.values() for tensor in flatten_outputs(item)]
    if isinstance(output, list | tuple):
        return [tensor for item in output for tensor in flatten_outputs(item)]
    if hasattr(output, "layers"):
        return [tensor for layer in output.layers for tensor in flatten_outputs(vars(layer))]
    if hasattr(output, "self_attention_cache"):
        return flatten_outputs([output.self_attention_cache, output.cross_attention_cache])
    return []


class DoublePrecision(TorchFunctionMode):
    """Runs code that insists on float32 (norms, rotary angles, softmax) in float64 instead."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = tuple(widen(item) for item in args)
        return func(*args, **{key: widen(item) for key, item in (kwargs or {}).items()})


def widen(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


@torch.no_grad()
def reference64(case: ModelCase, batch: int = 1, size: str = "tiny", seed: int = 0) -> list[torch.Tensor]:
    """Returns the outputs of ``case`` computed in float64 throughout."""
    model = copy.deepcopy(case.build(size, seed)).double()
    return run64(model, case.inputs(batch, size, torch.float64))


def run64(model: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """Returns the outputs of a float64 ``model`` on float64 ``inputs``. No step inside drops to float32."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with DoublePrecision():
            return flatten_outputs(model(**inputs))
    finally:
        torch.set_default_dtype(previous)


def relative_errors(outputs: Iterable[torch.Tensor], reference: Iterable[torch.Tensor]) -> list[float]:
    """Returns max|y - y64| / max|y64| of each output. For an integer output it is 0 if all elements are equal, and
    infinity otherwise."""
    return [relative_error(y, y64) for y, y64 in zip(outputs, reference, strict=True)]


def relative_error(y: torch.Tensor, y64: torch.Tensor) -> float:
    if y.shape != y64.shape:
        return float("inf")
    if not y64.is_floating_point():
        return 0.0 if torch.equal(y, y64) else float("inf")
    if y64.numel() == 0:
        return 0.0
    finite = torch.isfinite(y64)
    if not torch.equal(torch.isfinite(y), finite) or not same_special_values(y[~finite], y64[~finite]):
        return float("inf")
    if not finite.any():
        return 0.0
    difference = (y.double() - y64)[finite].abs().max().item()
    scale = y64[finite].abs().max().item()
    return difference / scale if scale else difference


def same_special_values(y: torch.Tensor, y64: torch.Tensor) -> bool:
    """Whether both have NaN at the same places, and infinities of the same sign."""
    return torch.equal(y.double().nan_to_num(), y64.nan_to_num())


def allowed_error(eager_error: float, factor: float = ERROR_FACTOR) -> float:
    """Returns the error bound of the project: ``factor`` times the error of eager, and at least 1e-5."""
    return max(ERROR_FLOOR, factor * eager_error)
