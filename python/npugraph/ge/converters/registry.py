# SPDX-License-Identifier: Apache-2.0
"""The converters by the operators that they convert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Converter = Callable[..., Any]
_Body = TypeVar("_Body", bound=Converter)

_converters: dict[str, Converter] = {}


def register_fx_node_ge_converter(target: Any) -> Callable[[_Body], _Body]:
    """Makes the decorated function the converter of ``target``, an ``OpOverload`` or a function of Python that FX
    graphs call. The first registration of a target wins.

    The function gets the arguments of an FX node as the node has them, and ``meta_outputs``: the ``TensorSpec`` of the
    result, or a list of them. Tensors among the arguments are ``torchair.ge.Tensor``; so are numbers that only a run of
    the graph knows, with rank 0, and lists of integers with such a number. It adds operators to the current graph and
    returns the result, or a list with one for each result of the node. ``None`` stands for a result that it cannot
    compute. It raises ``NotImplementedError`` for arguments that it cannot convert. Raises ``TypeError`` for a target
    of another kind."""
    name = name_of(target)

    def register(body: _Body) -> _Body:
        add(name, body)
        return body

    return register


def add(name: str, body: Converter) -> None:
    """Makes ``body`` the converter of the target of that name, if it has none."""
    _converters.setdefault(name, body)


def find(target: Any) -> Converter | None:
    """The converter of a target; None if it has none."""
    try:
        return _converters.get(name_of(target))
    except TypeError:
        return None


def registered() -> list[str]:
    """The names of all targets with a converter, sorted."""
    return sorted(_converters)


def name_of(target: Any) -> str:
    """The name of a target: ``aten.add.Tensor``, ``operator.add``, ``torch.sym_max``. Raises ``TypeError`` for a target
    that is neither an ``OpOverload`` nor a function."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    name = getattr(target, "__name__", None)
    if isinstance(target, torch._ops.OpOverloadPacket) or not callable(target) or name is None:
        raise TypeError(
            f"a converter is for an overload of an operator, such as torch.ops.aten.add.Tensor, or for a function, got "
            f"{target!r} ({type(target).__name__})"
        )
    module = (getattr(target, "__module__", None) or "").removeprefix("_")
    return f"{module}.{name}" if module else name
