# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernel is a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

kernels: dict[str, Callable[..., Any]] = {}  # by the name of the operator, with its namespace
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def define(namespace: str, schema: str, key: str = "CompositeExplicitAutograd") -> Decorator:
    """Defines the operator ``namespace::schema``. The decorated function becomes its kernel for ``key``."""
    name, arguments = schema.split("(", 1)
    name = f"{namespace}::{name}"
    torch.library.define(name, f"({arguments}")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        torch.library.impl(name, key)(function)
        kernels[name] = function
        return function

    return register
