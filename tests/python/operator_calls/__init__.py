# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that no sample of PyTorch's operator database makes, or not with all their arguments. There is one
file for each family of operators. Calls on which FakeTensor and eager disagree are left out; comments name the
difference."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import torch

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

# Tensors whose elements are repeated, that have holes, that have no dimension, and that have no elements.
EXPANDED = torch.rand(4).expand(3, 4)
HOLES = torch.rand(4, 6)[:, ::2]
SCALAR = torch.tensor(1.5)
EMPTY = torch.rand(0, 4)


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``function`` without autograd, which would decompose composite operators before they can be recorded."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return function(*args, **kwargs)

    return call


def all_calls() -> Iterator[Call]:
    """Yields (function, positional arguments, keyword arguments) of each call, from ``calls()`` of every file."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        yield from importlib.import_module(module.name).calls()
