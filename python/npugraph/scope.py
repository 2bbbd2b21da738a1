# SPDX-License-Identifier: Apache-2.0
"""Scopes in compiled code: what runs inside of one is treated in a special way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# Marks of the graph, which compute nothing. Those of torch.npu, which take a name alone, mean the same.
for _mark in ("super_kernel_scope_begin", "super_kernel_scope_end"):
    torch.library.define(f"npugraph_ex::{_mark}", "(str? scope_name=None, str options='') -> ()")
    torch.library.impl(f"npugraph_ex::{_mark}", "CompositeExplicitAutograd", lambda scope_name=None, options="": None)
    torch.library.register_fake(f"npugraph_ex::{_mark}", lambda scope_name=None, options="": None)
    torch.fx.node.has_side_effect(getattr(torch.ops.npugraph_ex, _mark).default)

_OPTIONS = ("", "strict-scope-check=bypass", "strict-scope-check=abort")


def check_super_kernel_options(who: str, options: str) -> None:
    """RuntimeError in the name of ``who`` for options that super kernels do not have."""
    if options not in _OPTIONS:
        raise RuntimeError(f"{who} takes options {' or '.join(_OPTIONS[1:])}, got {options!r}")


class super_kernel:
    """With the option ``super_kernel_optimize``, adjacent tasks of the block become one task::

        with npugraph_ex.scope.super_kernel("block"):
            y = torch.relu(x @ w) + b

    Blocks of one name that follow each other are one scope; a block of the name None, inside of another one, keeps its
    tasks out. Operators that are not generated code stay tasks of their own. ``options`` is
    ``"strict-scope-check=abort"``, which makes an error of that, or ``"strict-scope-check=bypass"``, as it is without.
    ``RuntimeError``, as from the marks of torch.npu, for a name that is no str or empty, and for other options.
    """

    def __init__(self, scope: str | None, options: str = "") -> None:
        if scope is not None and not isinstance(scope, str):
            raise RuntimeError(f"super_kernel takes a str or None as scope, got {scope!r} ({type(scope).__name__})")
        if scope == "":
            raise RuntimeError("super_kernel takes a scope with a name, or None for what is to stay out, got ''")
        check_super_kernel_options("super_kernel", options)
        self.scope = "" if scope is None else scope
        self.options = options

    def __enter__(self) -> None:
        torch.ops.npugraph_ex.super_kernel_scope_begin(self.scope, self.options)

    def __exit__(self, *exception: object) -> None:
        torch.ops.npugraph_ex.super_kernel_scope_end(self.scope)


@contextlib.contextmanager
def deterministic(level: int) -> Iterator[None]:
    """How far results must repeat, as ``torch.npu.set_deterministic_level`` says, until the block ends. Graphs of
    compiled functions break where it begins and ends: with ``fullgraph=True`` they cannot hold one. Raises ValueError
    for another level, RuntimeError without torch_npu."""
    before = _set_level(level)
    try:
        yield
    finally:
        _set_level(before)


@torch.compiler.disable
def _set_level(level: int) -> int:
    """What it was."""
    if not hasattr(torch, "npu"):
        raise RuntimeError("npugraph_ex.scope.deterministic is for the npu device, and torch_npu is not installed")
    before = torch.npu.get_deterministic_level()
    torch.npu.set_deterministic_level(level)
    return before
