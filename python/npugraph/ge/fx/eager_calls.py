# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that run eagerly between graphs of GE. The next graph was compiled for what the fake results say,
so real results get their strides. Errors of users' operators name the operator and the user's line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.error_notes import add_note
from npugraph.fx.schema import core_name, is_of_user
from npugraph.fx.source_lines import source_line
from npugraph.fx.values import makes_tensors, memory_order
from npugraph.ge.fx.values import constant


def eager_call(node: fx.Node) -> Callable[..., Any]:
    """A function that calls the operator of ``node``, as a graph between graphs of GE has to call it."""
    if is_of_user(node.target):
        return _checked(node)
    return _in_promised_strides(node) if makes_tensors(node) else node.target  # type: ignore[return-value]


def _in_promised_strides(node: fx.Node) -> Callable[..., Any]:
    operator: Any = node.target
    values = pytree.tree_leaves(node.meta.get("val"))
    promised = [_Result(value) if isinstance(value, torch.Tensor) else None for value in values]

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten(operator(*args, **kwargs))
        laid_out = [made if p is None else p.laid_out(made) for p, made in zip(promised, leaves, strict=True)]
        return pytree.tree_unflatten(laid_out, spec)

    return functools.update_wrapper(call, operator, assigned=("__name__",), updated=())


def _checked(node: fx.Node) -> Callable[..., Any]:
    """A function that calls the operator of ``node``. Results of other strides are copied. Raises ``RuntimeError`` for
    results that differ from those of the Meta function in number, sizes, type or device."""
    operator: Any = node.target
    name = core_name(operator)
    line = source_line(node)
    place = f"in {name} ({line})" if line else f"in {name}"
    results = [_Result(value) for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            made = operator(*args, **kwargs)
            if not results:
                return made
            leaves, spec = pytree.tree_flatten(made)
            if len(leaves) != len(results):
                raise RuntimeError(f"operator {name} returned {len(leaves)} results where {len(results)} were promised")
            return pytree.tree_unflatten([r.checked(name, x) for r, x in zip(results, leaves, strict=True)], spec)
        except Exception as error:
            add_note(error, "torchair", place=place)
            raise

    return functools.update_wrapper(call, operator, assigned=("__name__",), updated=())


class _Result:
    """What the Meta function says of a result; None for what only a run knows."""

    def __init__(self, value: torch.Tensor) -> None:
        self._dtype, self._device = value.dtype, value.device.type
        self._sizes = [constant(size) for size in value.size()]
        self._strides = [constant(stride) for stride in value.stride()]
        self._order = memory_order(value) if value.layout is torch.strided else None

    def checked(self, name: str, made: Any) -> torch.Tensor:
        """The result in the strides that were promised."""
        if not isinstance(made, torch.Tensor):
            raise RuntimeError(f"operator {name} returned {type(made).__name__} where a tensor was promised")
        if (made.dtype, made.device.type) != (self._dtype, self._device):
            raise RuntimeError(
                f"operator {name} returned {made.dtype} on {made.device.type} where {self._dtype} on {self._device} "
                "was promised"
            )
        sizes = list(made.size())
        if len(sizes) != len(self._sizes) or any(
            said not in (None, size) for size, said in zip(sizes, self._sizes, strict=True)
        ):
            raise RuntimeError(
                f"operator {name} returned sizes {sizes} where the program needs {self._text_of_sizes()}"
            )
        return self.laid_out(made)

    def laid_out(self, made: torch.Tensor) -> torch.Tensor:
        """The result, or a copy of it, in the strides that were promised, if these are known."""
        if self._order is not None:
            turned = made.permute(self._order)
            back = [self._order.index(dim) for dim in range(len(self._order))]
            return made if turned.is_contiguous() else turned.contiguous().permute(back)
        if None in self._strides or list(made.stride()) == self._strides:
            return made
        return torch.empty_strided(made.size(), self._strides, dtype=made.dtype, device=made.device).copy_(made)

    def _text_of_sizes(self) -> list[Any]:
        return ["any" if size is None else size for size in self._sizes]
