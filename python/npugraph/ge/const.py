# SPDX-License-Identifier: Apache-2.0
"""Constants: values of Python, numpy and torch as a ``TensorDef`` and as the operator ``Const``."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from npugraph.ge import attr, data_types, proto
from npugraph.ge.graph import Tensor, current_graph

_ALLOWED = "a number, a list of numbers, a numpy array or a tensor of torch that has values"
_Numbers = (bool, int, float, complex)
_WITHOUT_VALUES = (torch.qint8, torch.qint32, torch.quint8, torch.quint4x2)  # their bytes are no numbers


def Const(v: Any, dtype: Any = None, node_name: str | None = None, readable: bool = True) -> Tensor:
    """Adds the constant ``v`` to the current graph. ``dtype`` is a ``DataType``; without it, a tensor or an array keeps
    its type, and numbers of Python are int64, float32, bool or complex64 (an empty list: int64). With ``readable``,
    dumps show the value. Raises ``RuntimeError`` for what has no values, and for a type that torch does not compute
    with."""
    values = values_of(v, dtype)
    node = current_graph().add_op("Const", node_name)
    definition = tensor_def(values)
    attr.Tensor(definition).write(node.attr["value"])
    if readable:
        node.attr["_readable_value"].s = repr(values.tolist()).encode()
    node.output_desc.add().CopyFrom(definition.desc)
    return Tensor(node, 0, values.shape)


def is_constant(value: Any) -> bool:
    """Whether the value is of a kind that ``Const`` takes. A list of tensors is none."""
    if isinstance(value, (list, tuple)):
        return all(isinstance(number, _Numbers) for number in _numbers(value))
    return isinstance(value, (*_Numbers, numpy.ndarray, numpy.generic, torch.Tensor))


def values_of(v: Any, dtype: Any = None) -> torch.Tensor:
    """``v`` as a dense tensor in host memory, in the type that ``Const`` says."""
    if not is_constant(v) or (isinstance(v, torch.Tensor) and not _has_values(v)):
        raise RuntimeError(f"a constant is {_ALLOWED}, got {v!r} ({type(v).__name__})")
    to = None if dtype is None else _with_values(dtype)
    with _disable_current_modes(), torch.no_grad():
        if isinstance(v, torch.Tensor):
            return v.detach().to("cpu", to or v.dtype).contiguous()
        try:
            return torch.tensor(v, dtype=to or _natural_type(v))
        except (OverflowError, TypeError, ValueError, RuntimeError) as error:
            raise RuntimeError(f"a constant is {_ALLOWED}, got {v!r} ({type(v).__name__}): {error}") from None


def tensor_def(values: torch.Tensor) -> Any:
    """The ``TensorDef`` of a dense tensor in host memory. Its descriptor is that of result ``y`` of ``Const``."""
    definition = proto.TensorDef()
    definition.desc.name = "y"
    definition.desc.dtype = data_types.to_proto(data_types.of_torch(values.dtype))
    definition.desc.layout = "ND"
    definition.desc.shape.SetInParent()
    definition.desc.shape.dim.extend(values.shape)
    with _disable_current_modes():
        definition.data = values.reshape(-1).view(torch.uint8).numpy().tobytes()
    return definition


def tensor_of(definition: Any) -> torch.Tensor:
    """The values of a ``TensorDef``. Raises ``RuntimeError`` if torch does not compute with the type, and if the number
    of bytes does not fit."""
    return from_bytes(definition.data, data_types.of_proto(definition.desc.dtype), definition.desc.shape.dim)


def from_bytes(data: bytes | str, dtype: Any, size: Sequence[int]) -> torch.Tensor:
    """A tensor of the bytes of its elements, little-endian, or of these bytes in base64."""
    data = base64.b64decode(data) if isinstance(data, str) else data
    element = _with_values(dtype)
    if any(dim < 0 for dim in size) or len(data) != element.itemsize * math.prod(size):
        raise RuntimeError(f"a tensor of {element} and size {list(size)} is not made of {len(data)} bytes")
    with _disable_current_modes():
        values = torch.empty(tuple(size), dtype=element)
        if data:
            values.reshape(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return values


def _with_values(dtype: Any) -> torch.dtype:
    to = data_types.to_torch(dtype)
    if to in _WITHOUT_VALUES:
        raise RuntimeError(
            f"torch does not compute with {data_types.as_data_type(dtype).name}, so it makes no constants"
        )
    return to


def _has_values(tensor: torch.Tensor) -> bool:
    return not (isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.dtype in _WITHOUT_VALUES)


def _natural_type(v: Any) -> torch.dtype | None:
    """The type of numbers of Python; None for arrays, which have one."""
    if isinstance(v, (numpy.ndarray, numpy.generic)):
        return None
    kinds = [type(number) for number in _numbers(v)]
    if not kinds:
        return torch.int64
    for kind, dtype in ((complex, torch.complex64), (float, torch.float32), (bool, torch.bool)):
        if kind in kinds and (kind is not bool or all(found is bool for found in kinds)):
            return dtype
    return torch.int64


def _numbers(v: Any) -> Iterator[Any]:
    if not isinstance(v, (list, tuple)):
        yield v
        return
    for part in v:
        yield from _numbers(part)
