# SPDX-License-Identifier: Apache-2.0
"""Views of FX graphs whose memory an operator writes. Tensors of GE are values, so a written view is put back into what
it views, and views of that are made again:

    v = slice(c, 0, 1, 4)        v1 = Update(StridedSliceV2(c, ...))
    update_(v)              ->   c1 = StridedSliceAssign(c, ..., v1)
    r = c + 1                    r = Add(c1, 1)

The engine computes that in place (``src/core/passes/memory/working_copy.h``)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from npugraph.fx.nodes import base_of, is_view_node
from npugraph.fx.schema import arguments_by_name
from npugraph.ge import apis as ge
from npugraph.ge.converters.values import LAST, dimension, integers, place_in
from npugraph.ge.fx.values import constant
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


def views_of(node: fx.Node) -> Iterator[fx.Node]:
    """The views of a node, and their views."""
    for user in node.users:
        if is_view_node(user) and user.args[0] is node:
            yield user
            yield from views_of(user)


def are_apart(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two views of one tensor certainly share no element."""
    if any(constant(size) == 0 for size in (*a.shape, *b.shape)):
        return True
    distance = b.storage_offset() - a.storage_offset()
    if statically_known_true(distance > _reach(a)) or statically_known_true(-distance > _reach(b)):
        return True
    strides = [s for x in (a, b) for n, s in zip(x.shape, x.stride(), strict=True) if constant(n) != 1]
    if not strides or not all(isinstance(number, int) for number in (*a.shape, *b.shape, *strides, distance)):
        return False
    return any(_are_apart_in_rows(a, b, distance, strides, most) for most in (0, *strides) if most < max(strides))


def _are_apart_in_rows(a: torch.Tensor, b: torch.Tensor, distance: int, strides: Sequence[int], most: int) -> bool:
    """Whether the views have no element in common, seen as rows at multiples of a distance, in which the dimensions
    with strides up to ``most`` lie."""
    rows = math.gcd(*(stride for stride in strides if stride > most))
    place = distance % rows
    return place > _reach(a, most) and rows - place > _reach(b, most)


def _reach(x: torch.Tensor, most: float = math.inf) -> Any:
    """The distance of the last element from the first one, in the dimensions with strides up to ``most``."""
    return sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True) if most == math.inf or s <= most)


def check_apart(given: Sequence[tuple[fx.Node, str]], written: Container[str]) -> None:
    """Raises ``NotImplementedError`` if an argument that is written may share memory with another one. ``given`` are
    the tensors that an operator gets, each with the name of its argument, ``written`` are the names of those that it
    writes."""
    for (a, name), (b, other) in itertools.combinations(given, 2):
        if name not in written and other not in written:
            continue
        if base_of(a) is base_of(b) and not are_apart(a.meta["val"], b.meta["val"]):
            first, second = (name, other) if name in written else (other, name)
            raise NotImplementedError(f"its argument {first}, which it writes, may share memory with {second}")


def put_back(view: fx.Node, name: str, base: Tensor, part: Tensor, operands: Any) -> Tensor:
    """``base``, the tensor of ``base_of(view)``, with ``part`` as the value of ``view``. ``operands`` makes operands of
    arguments of nodes. Raises ``NotImplementedError`` if Ascend IR cannot say the place of the view, which is the
    argument ``name``."""
    origin, value = base_of(view).meta["val"], view.meta["val"]
    if view.target is aten.slice.Tensor and view.args[0] is base_of(view):
        given = arguments_by_name(view.target, view.args, view.kwargs)
        if given.get("step", 1) == 1:
            return _with_slice(base, part, given.get("dim", 0), *(operands(given.get(key)) for key in ("start", "end")))
    if origin.dtype != value.dtype:
        raise NotImplementedError(f"its argument {name}, which it writes, is a view with another element type")
    if base.order is None:
        raise NotImplementedError(f"its argument {name}, which it writes, is a view of a tensor that is not dense")
    places = [*value.shape, *value.stride(), value.storage_offset() - origin.storage_offset()]
    if not all(isinstance(constant(place), int) for place in places):
        raise NotImplementedError(
            f"its argument {name}, which it writes, is a view whose place is known only when the graph runs"
        )
    return _with_places(base, part, [constant(place) for place in places])


def _with_slice(base: Tensor, part: Tensor, dim: int, start: Any, end: Any) -> Tensor:
    """The dimensions before ``dim`` are whole, and so are those behind it."""
    axis = dimension(dim, base.rank)
    first = place_in("start", 0 if start is None else start, base, axis)
    last = place_in("end", LAST if end is None else end, base, axis)
    begin, behind = (integers([*[0] * axis, bound]) for bound in (first, last))
    before = (1 << axis) - 1
    return ge.StridedSliceAssign(base, begin, behind, [1] * (axis + 1), part, begin_mask=before, end_mask=before)


def _with_places(base: Tensor, part: Tensor, places: list[int]) -> Tensor:
    """``places`` are sizes and strides of ``part``, and its offset, as they count in memory."""
    sizes, strides, offset = places[: part.rank], places[part.rank : -1], places[-1]
    row_major = [math.prod(sizes[dim + 1 :]) for dim in range(part.rank)]
    rows = ge.Transpose(base, list(base.order)) if base.order else base
    made = ge.ViewCopy(rows, sizes, strides, [offset], part, sizes, row_major, [0])
    return ge.Transpose(made, [base.order.index(dim) for dim in range(base.rank)]) if base.order else made
