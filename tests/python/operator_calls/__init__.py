# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that no sample of PyTorch's operator database makes, or not with all their arguments: one file for
each family of rows in ``src/ops/rows``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import torch

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

# Tensors in which elements stand for several, lie apart, are one without a dimension, or are none.
EXPANDED = torch.rand(4).expand(3, 4)
HOLES = torch.rand(4, 6)[:, ::2]
SCALAR = torch.tensor(1.5)
EMPTY = torch.rand(0, 4)


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without autograd, which would take operators made of others apart before anyone sees them."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return function(*args, **kwargs)

    return call


def all_calls() -> Iterator[Call]:
    """(function, positional arguments, keyword arguments) of each call; every file has them in ``calls()``."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        yield from importlib.import_module(module.name).calls()
