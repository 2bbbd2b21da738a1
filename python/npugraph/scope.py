# SPDX-License-Identifier: Apache-2.0
"""Scopes in compiled code, which change how the code inside of them runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# These operators mark places of the graph and compute nothing. The marks of torch.npu mean the same, but take only a
# name.
for _mark in ("super_kernel_scope_begin", "super_kernel_scope_end"):
    torch.library.define(f"npugraph_ex::{_mark}", "(str? scope_name=None, str options='') -> ()")
    torch.library.impl(f"npugraph_ex::{_mark}", "CompositeExplicitAutograd", lambda scope_name=None, options="": None)
    torch.library.register_fake(f"npugraph_ex::{_mark}", lambda scope_name=None, options="": None)
    torch.fx.node.has_side_effect(getattr(torch.ops.npugraph_ex, _mark).default)

_OPTIONS = ("", "strict-scope-check=bypass", "strict-scope-check=abort")


def check_super_kernel_options(who: str, options: str) -> None:
    """Raises RuntimeError in the name of ``who`` for options that super kernels do not have."""
    if options not in _OPTIONS:
        raise RuntimeError(f"{who} takes options {' or '.join(_OPTIONS[1:])}, got {options!r}")


class super_kernel:
    """Makes adjacent tasks of a block one task, if the option ``super_kernel_optimize`` is on::

        with npugraph_ex.scope.super_kernel("block"):
            y = torch.relu(x @ w) + b

    Blocks of the same name that follow each other are one scope. A block of the name None inside of another block keeps
    its tasks out of that one. Operators that are not generated code stay tasks of their own. With the ``options``
    ``"strict-scope-check=abort"`` they are an error; ``"strict-scope-check=bypass"`` is the default behaviour.
    Raises ``RuntimeError``, as the marks of torch.npu do, for a name that is blank or no str, and for other options.
    """

    def __init__(self, scope: str | None, options: str = "") -> None:
        if scope is not None and not isinstance(scope, str):
            raise RuntimeError(f"super_kernel takes a str or None as scope, got {scope!r} ({type(scope).__name__})")
        if scope is not None and not scope.strip():
            raise RuntimeError(
                f"super_kernel takes a scope with a name, or None for what is to stay out, got {scope!r}"
            )
        check_super_kernel_options("super_kernel", options)
        self.scope = "" if scope is None else scope
        self.options = options

    def __enter__(self) -> None:
        torch.ops.npugraph_ex.super_kernel_scope_begin(self.scope, self.options)

    def __exit__(self, *exception: object) -> None:
        torch.ops.npugraph_ex.super_kernel_scope_end(self.scope)


@contextlib.contextmanager
def deterministic(level: int) -> Iterator[None]:
    """Sets how far results must repeat until the block ends, as ``torch.npu.set_deterministic_level`` does. Graphs of
    compiled functions break where the block begins and ends, so a function that is compiled with ``fullgraph=True``
    cannot contain one. Raises ValueError for an unknown level, RuntimeError without torch_npu."""
    before = _set_level(level)
    try:
        yield
    finally:
        _set_level(before)


@torch.compiler.disable
def _set_level(level: int) -> int:
    """Sets the level and returns the level before. Raises RuntimeError without torch_npu."""
    if not hasattr(torch, "npu"):
        raise RuntimeError("npugraph_ex.scope.deterministic is for the npu device, and torch_npu is not installed")
    before = torch.npu.get_deterministic_level()
    torch.npu.set_deterministic_level(level)
    return before
