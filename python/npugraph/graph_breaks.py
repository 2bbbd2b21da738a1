# SPDX-License-Identifier: Apache-2.0
"""Breaks graphs at the operators that the environment names: ``BREAK_GRAPH_OP_LIST=SLICE,NN.LINEAR``.

``SLICE`` stands for reads and ``SETITEM`` for writes of parts of tensors in brackets. ``NN.X`` stands for calls of
modules of the class X of torch.nn. Upper and lower case are the same. The code before and after such an operator is
compiled, and the operator itself runs in eager mode.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables import BuiltinVariable, SliceVariable, TensorVariable, TupleVariable

VARIABLE = "BREAK_GRAPH_OP_LIST"


@functools.cache
def install() -> None:
    """Reads the environment once. Raises ``ValueError`` for an entry that names no operator."""
    for token in os.environ.get(VARIABLE, "").replace(",", " ").split():
        _break_at(token.upper())


def _break_at(token: str) -> None:
    if token == "SLICE":
        _break_in(BuiltinVariable, "call_function", token, _reads_a_slice)
    elif token == "SETITEM":
        _break_in(TensorVariable, "method___setitem__", token, lambda *_: True)
    elif (module := _modules().get(token.removeprefix("NN."))) and token.startswith("NN."):
        module.forward = torch._dynamo.disable(module.forward, reason=f"{token} is in {VARIABLE}")
    else:
        raise ValueError(f"{VARIABLE} takes SLICE, SETITEM and NN.X for a class X of torch.nn, got {token!r}")


@functools.cache
def _modules() -> dict[str, type[torch.nn.Module]]:
    return {
        name.upper(): value
        for name, value in vars(torch.nn).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }


def _break_in(variable: type, method: str, token: str, is_meant: Callable[..., bool]) -> None:
    """Breaks the graph where Dynamo traces a call by ``method`` for which ``is_meant`` returns True."""
    traced = getattr(variable, method)

    @functools.wraps(traced)
    def trace(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        if is_meant(self, *args):
            unimplemented(
                gb_type=VARIABLE,
                context=token,
                explanation=f"{token} is in {VARIABLE}, so that graphs break here.",
                hints=[],
            )
        return traced(self, tx, *args, **kwargs)

    setattr(variable, method, trace)


def _reads_a_slice(builtin: Any, args: list[Any], _: dict[str, Any]) -> bool:
    if builtin.fn is not operator.getitem or len(args) != 2:
        return False
    read, key = (arg.realize() for arg in args)
    return isinstance(read, TensorVariable) and _has_slice(key)


def _has_slice(key: Any) -> bool:
    return isinstance(key, SliceVariable) or (isinstance(key, TupleVariable) and any(map(_has_slice, key.items)))
