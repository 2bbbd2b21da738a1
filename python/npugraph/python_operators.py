# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernel is a Python function, of npugraph and of users."""

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


# Keys of the dispatcher under which tasks find kernels.
_KEYS = ("CPU", "PrivateUse1", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


def runs_python(task: Any) -> bool:
    """Whether a task of an artifact runs Python code: a callable, or an operator with a kernel that
    ``torch.library`` registered. Its Python code holds the interpreter's lock (GIL)."""
    if task.kind != "aten":
        return task.kind == "python"
    operator = task.name.replace(".", "/", 1)
    return any(f"{operator}/{key}" in torch.library._impls for key in _KEYS)
