# SPDX-License-Identifier: Apache-2.0
"""Helpers for the fake values of nodes, and for the metadata that says where nodes came from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx


def evaluate(node: fx.Node) -> Any:
    """Calls the node's target with the values of its arguments, and returns the result."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    return node.target(*args, **kwargs)


def attribute(gm: fx.GraphModule, target: str) -> Any:
    """Returns the attribute that a ``get_attr`` node with this target refers to."""
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


def is_same(one: Any, other: Any) -> bool:
    """Whether two values, or lists of values, are the same or describe tensors of equal layout, type and device. Adds
    no guards."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return one is other
    return one is other or _facts(one) == _facts(other)


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return tensor.dtype, tensor.device, tensor.requires_grad, *expressions(sizes)


def expressions(numbers: Iterable[Any]) -> list[Any]:
    """Numbers of torch as numbers and sympy expressions, which can be compared without guards."""
    return [
        number.node.expr if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) else number
        for number in numbers
    ]


_ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack")


def origin_of(node: fx.Node) -> dict[str, Any]:
    """The metadata of a node that is also true of nodes made from it."""
    return {key: node.meta[key] for key in _ORIGIN if key in node.meta}
