# SPDX-License-Identifier: Apache-2.0
"""Values that converters get, and what they make of them: numbers that only a run knows, promotions, lists of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx.experimental.symbolic_shapes import statically_known_true

from npugraph.ge import apis as ge
from npugraph.ge import attr, data_types
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor, current_graph

HALF_TYPES = (DataType.DT_FLOAT16, DataType.DT_BF16)
LAST = 2**63 - 1  # a place behind the end of any tensor
_Numbers = (bool, int, float)


class Late(Tensor):
    """A tensor whose operator is added when somebody reads it first."""

    def __init__(self, make: Callable[[], Tensor], size: Sequence[int]) -> None:
        self._make = make
        self._made: Tensor | None = None
        self.symsize = list(size)
        self.order = ()

    @property
    def made(self) -> Tensor:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def node(self) -> Any:  # type: ignore[override]
        return self.made.node

    @property
    def index(self) -> int:  # type: ignore[override]
        return self.made.index


class Number(Late):
    """A number that only a run of the graph knows: a tensor of rank 0. ``value`` is a ``torch.SymInt``, ``SymFloat`` or
    ``SymBool``. If it ``is_size``, it follows from sizes of inputs, and sizes may follow from it."""

    def __init__(self, value: Any, make: Callable[[], Tensor], is_size: bool = True) -> None:
        super().__init__(make, ())
        self.value = value
        self.is_size = is_size

    def __repr__(self) -> str:
        return f"a number that only a run knows ({self.value})"


class Numbers(Late):
    """A list of integers, some of which only a run of the graph knows: their ``Pack``. Each of ``parts`` is an int or a
    tensor of rank 0."""

    def __init__(self, parts: Sequence[int | Tensor]) -> None:
        if not all(map(is_size, parts)):
            raise NotImplementedError("a size follows from the elements of a tensor")
        self.parts = list(parts)
        super().__init__(self._pack, (len(parts),))

    def _pack(self) -> Tensor:
        tensors = [cast(part, DataType.DT_INT64) if isinstance(part, Tensor) else ge.Const(part) for part in self.parts]
        return _listed(ge.Pack(tensors, N=len(tensors)), [getattr(part, "value", part) for part in self.parts])

    def __repr__(self) -> str:
        return f"a list of numbers ({self.parts})"


def is_size(number: Any) -> bool:
    """Whether a number is known, or follows from sizes of inputs."""
    return not isinstance(number, Number) or number.is_size


def integers(parts: Sequence[int | Tensor]) -> Any:
    """A list of integers as an operand: one constant if all are known, else their ``Numbers``."""
    return Numbers(parts) if any(isinstance(part, Tensor) for part in parts) else list(parts)


def parts_of(value: Any) -> list[Any]:
    """The integers of a list, each an int or a tensor of rank 0."""
    return value.parts if isinstance(value, Numbers) else list(value)


def known(what: str, value: Any) -> Any:
    """``value`` of the argument ``what`` as a constant, as attributes of operators need it. A float that only a run
    knows becomes one that is assumed for the compiled graph, and the graph is compiled again for another one. Raises
    ``NotImplementedError`` for tensors and integers that only a run knows."""
    if isinstance(value, Number) and isinstance(value.value, (torch.SymFloat, torch.SymBool)):
        return float(value.value) if isinstance(value.value, torch.SymFloat) else bool(value.value)
    parts = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(part, Tensor) for part in parts):
        raise NotImplementedError(f"its argument {what} is known only when the graph runs")
    return value


def typed(x: Tensor, dtype: Any, size: Sequence[Any]) -> Tensor:
    """``x``, of which now element type and sizes are known. Results of nodes get theirs from the node."""
    x.desc.dtype = data_types.to_proto(dtype)
    x.symsize = list(size)
    return x


def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in another element type."""
    if x.dtype == dtype:
        return x
    made = ge.Cast(x, dst_type=dtype)
    made.symsize, made.order = x.symsize, x.order
    return made


def operand(value: Any, dtype: Any) -> Tensor:
    """A tensor or a number as an operand of the element type ``dtype``; a number has rank 0."""
    return cast(value, dtype) if isinstance(value, Tensor) else ge.Const(value, dtype=dtype)


def dtype_promote(*values: Any, target_dtype: Any) -> Any:
    """Returns tensors and numbers as operands of the element type ``target_dtype``, a ``DataType`` or a dtype of torch:
    one for a single value, otherwise a list. For converters of users. Raises ``RuntimeError`` for another type."""
    dtype = data_types.as_data_type(target_dtype)
    operands = [operand(value, dtype) for value in values]
    return operands[0] if len(operands) == 1 else operands


def exactly(build: Callable[..., Tensor], dtype: Any, *values: Any) -> Tensor:
    """The result, of the element type ``dtype``, of an operator whose operands are ``values``, tensors and numbers. If
    a half type cannot hold a number as it is, the operator computes in float32, because torch's kernels compute with
    the exact number."""
    exact = all(is_exact(value, dtype) for value in values)
    result = build(*(operand(value, dtype if exact else DataType.DT_FLOAT) for value in values))
    return result if exact else cast(result, dtype)


def is_exact(value: Any, dtype: Any) -> bool:
    """Whether the element type ``dtype`` can hold a number as it is. A tensor is no number."""
    if isinstance(value, Number):
        return dtype not in HALF_TYPES
    if not isinstance(value, float) and not isinstance(value, int):
        return True
    if dtype not in HALF_TYPES or value != value:
        return True
    return float(torch.tensor(value, dtype=data_types.to_torch(dtype))) == value


def common_type(values: Sequence[Any]) -> Any:
    """The ``DataType`` to which torch promotes operands: tensors and numbers."""
    _, result = elementwise_dtypes(*map(_stand_in, values), type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    return data_types.of_torch(result)


def _stand_in(value: Any) -> Any:
    """A value of the same type and kind."""
    if isinstance(value, Number):
        kinds = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
        return kinds[type(value.value)](0)
    if isinstance(value, Tensor):
        size = () if value.rank == 0 else (1,)
        return torch.empty(size, dtype=data_types.to_torch(value.dtype), device="meta")
    return value


def dimension(dim: int, rank: int) -> int:
    """A dimension that counts from the end if it is negative, as one from the front. A scalar has dimension 0."""
    return dim + max(rank, 1) if dim < 0 else dim


def shape_of(x: Tensor) -> Any:
    """The sizes of ``x`` as an operand: a constant list, or the result of ``Shape``."""
    if all(isinstance(size, int) for size in x.symsize or ()):
        return list(x.symsize or ())
    return _listed(ge.Shape(x, dtype=int(DataType.DT_INT64)), x.symsize or ())


def _listed(numbers: Tensor, values: Sequence[Any]) -> Tensor:
    """``numbers``, a tensor that has these sizes as its elements."""
    current_graph().size_lists[numbers.tensor] = list(values)
    return typed(numbers, DataType.DT_INT64, [len(values)])


def size_at(x: Tensor, dim: int) -> int | Tensor:
    """A size of ``x``: an int, or a tensor of rank 0."""
    size = (x.symsize or ())[dimension(dim, x.rank)]
    if isinstance(size, int):
        return size
    return typed(ge.Gather(shape_of(x), ge.Const(dimension(dim, x.rank))), DataType.DT_INT64, ())


def is_attribute(number: float) -> bool:
    """Whether an attribute of Ascend IR, which is float32, keeps a number. The engine reads it as the decimal number
    with the fewest digits that gives this float32."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(number))) == number


def as_attributes(numbers: Mapping[str, float], dtype: DataType) -> Mapping[str, float]:
    """Returns numbers for attributes of an operator on tensors of a type. Raises ``NotImplementedError`` for a number
    that would lose digits in a computation in float64."""
    for name, number in numbers.items():
        if dtype == DataType.DT_DOUBLE and not is_attribute(number):
            raise NotImplementedError(f"its argument {name} is {number!r}, and attributes of Ascend IR are float32")
    return numbers


def place_in(what: str, place: Any, x: Tensor, dim: int) -> int | Tensor:
    """A place along dimension ``dim`` of ``x``, which counts from the end if it is negative. One that only a run knows
    counts from the front afterwards."""
    if not isinstance(place, Number) or not counts_from_end(what, place):
        return place
    from_front = place.value + (x.symsize or ())[dimension(dim, x.rank)]
    return Number(from_front, lambda: operand(plus(size_at(x, dim), place), DataType.DT_INT64), place.is_size)


def counts_from_end(what: str, place: Any) -> bool:
    """Whether a place is negative. Raises ``NotImplementedError`` if that is known only when the graph runs."""
    value = place.value if isinstance(place, Number) else place
    if statically_known_true(value < 0):
        return True
    if statically_known_true(value >= 0):
        return False
    raise NotImplementedError(f"its argument {what} is known only when the graph runs, and may be negative")


def plus(a: int | Tensor, b: int | Tensor) -> int | Tensor:
    """The sum of two sizes or places."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return typed(ge.Add(operand(a, DataType.DT_INT64), operand(b, DataType.DT_INT64)), DataType.DT_INT64, ())


def times(a: int | Tensor, b: int) -> int | Tensor:
    """The product of a size and a number."""
    if isinstance(a, int) or b == 1:
        return a if b == 1 else a * b  # type: ignore[operator]
    return typed(ge.Mul(a, operand(b, DataType.DT_INT64)), DataType.DT_INT64, ())


def images(
    result: Tensor, inputs: Sequence[int] = (0,), outputs: Sequence[int] = (0,), data_format: str = "NCHW"
) -> None:
    """Says that these inputs and outputs of the operator of ``result`` are images, or filters for them, in this
    format."""
    for side, numbers in (("input", inputs), ("output", outputs)):
        info = result.node.attr[f"{side}_layout_info"].list
        attr.ListStr([data_format] * len(numbers)).write(result.node.attr[f"{side}_layout_info"])
        info.i.extend(numbers)
