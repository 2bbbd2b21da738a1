# SPDX-License-Identifier: Apache-2.0
"""Parts of a graph that run in Python between captured tasks: higher-order operators, callables that are no ATen
operators, and values that are neither tensors nor numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph import _C


class Objects(threading.local):
    """The values of one graph that no task can carry (script objects, contexts). They pass between the Python tasks of
    one run."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    @contextlib.contextmanager
    def of_one_run(self) -> Iterator[dict[str, Any]]:
        """Gives a run on this thread empty values of its own. The run may be inside another run of the same graph."""
        outer, self.values = self.values, {}
        try:
            yield self.values
        finally:
            self.values = outer


@dataclasses.dataclass(frozen=True)
class Original:
    """The call behind a Python task whose results are a tensor, or a flat list of tensors, and nothing else."""

    node: fx.Node
    operands: Sequence[fx.Node]
    scalars: Sequence[fx.Node]
    constants: dict[fx.Node, Any]

    @property
    def gives_list(self) -> bool:
        return not isinstance(self.node.meta["val"], torch.Tensor)

    def arguments(self, flat: Sequence[Any], constants: dict[fx.Node, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of the call. ``flat`` has the values of operands, then of scalars."""
        values = _unflattened(self.operands, self.scalars, iter(flat)) | constants
        return fx.map_arg((self.node.args, self.node.kwargs), values.__getitem__)


def original_call(function: Callable[..., Any]) -> Original | None:
    """The call behind a callable that ``make_callable`` made. None if it cannot be written down."""
    return getattr(function, "original", None)


def make_callable(
    node: fx.Node,
    operands: Sequence[fx.Node],
    scalars: Sequence[fx.Node],
    constants: dict[fx.Node, Any],
    objects: Objects,
    stored: Sequence[fx.Node],
    keep_results: bool,
    scalar_results: Sequence[Callable[[Any], Any]],
) -> Callable[..., Any]:
    """Makes a function of the node's tensors and scalars, in the order given here. It returns the node's flat tensors
    and then the scalars that the node defines.

    ``operands`` are nodes with one or several tensors. The values of ``stored`` nodes are in ``objects``. ``constants``
    are attributes of the module and known scalars. Without ``keep_results`` the result goes to ``objects`` under the
    node's name.
    """
    shapes = [_is_tensor(operand.meta.get("val")) for operand in operands]
    name = node.name

    def run(*flat: Any) -> list[Any]:
        values = constants | _unflattened(operands, scalars, iter(flat), shapes)
        for other in stored:
            values[other] = objects.values[other.name]
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: values[n])
        result = node.target(*args, **kwargs)
        if not keep_results:
            objects.values[name] = result
            return [read(result) for read in scalar_results]
        tensors = [leaf for leaf in _leaves(result) if leaf is None or isinstance(leaf, torch.Tensor)]
        return tensors + [read(result) for read in scalar_results]

    if keep_results and not stored and not scalar_results and _is_flat(node.meta.get("val")):
        run.original = Original(node, operands, scalars, constants)
    return run


def _unflattened(
    operands: Sequence[fx.Node],
    scalars: Sequence[fx.Node],
    flat: Iterator[Any],
    shapes: Sequence[bool | list[bool]] | None = None,
) -> dict[fx.Node, Any]:
    """The values of operands, some of which are lists, and of scalars, taken from ``flat`` in order."""
    shapes = shapes or [_is_tensor(operand.meta.get("val")) for operand in operands]
    values: dict[fx.Node, Any] = {}
    for operand, shape in zip(operands, shapes, strict=True):
        values[operand] = [next(flat) if here else None for here in shape] if isinstance(shape, list) else next(flat)
    for scalar in scalars:
        values[scalar] = next(flat)
    return values


def _is_flat(value: Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(item, torch.Tensor) for item in items)


def _leaves(result: Any) -> list[Any]:
    return pytree.tree_leaves(result, is_leaf=lambda x: x is None)


def _is_tensor(value: Any) -> bool | list[bool]:
    """Whether a value is a tensor. For a list, one answer for each entry."""
    if isinstance(value, (list, tuple)):
        return [isinstance(item, (torch.Tensor, _C.Opaque)) for item in value]
    return isinstance(value, (torch.Tensor, _C.Opaque))
