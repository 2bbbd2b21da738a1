# SPDX-License-Identifier: Apache-2.0
"""Element types and formats of GE. Element types have three numberings:

- ``ProtoDataType``: in messages, where ``TensorDescriptor.dtype`` is one (``ge_ir.proto``);
- ``DataType``: in attributes of operators (``dtype``, ``dst_type``, ``_output_dtypes``) and in functions of users;
- ``ScalarType``: in ``ScalarType`` and ``int dtype`` arguments of operators of torch and torch_npu.

``TensorSpec`` is what FX knows of a result: its element type, sizes and order in memory."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from npugraph._C import ge as _ge
from npugraph.ge import proto


class _Row(NamedTuple):
    name: str
    number: int  # of DataType
    dtype: torch.dtype | None = None
    scalar: int | None = None  # torch's number of `dtype` (c10::ScalarType)


_ROWS = (
    _Row("FLOAT", 0, torch.float32, 6),
    _Row("FLOAT16", 1, torch.float16, 5),
    _Row("INT8", 2, torch.int8, 1),
    _Row("INT32", 3, torch.int32, 3),
    _Row("UINT8", 4, torch.uint8, 0),
    _Row("INT16", 6, torch.int16, 2),
    _Row("UINT16", 7, torch.uint16, 27),
    _Row("UINT32", 8, torch.uint32, 28),
    _Row("INT64", 9, torch.int64, 4),
    _Row("UINT64", 10, torch.uint64, 29),
    _Row("DOUBLE", 11, torch.float64, 7),
    _Row("BOOL", 12, torch.bool, 11),
    _Row("STRING", 13),
    _Row("DUAL_SUB_INT8", 14),
    _Row("DUAL_SUB_UINT8", 15),
    _Row("COMPLEX64", 16, torch.complex64, 9),
    _Row("COMPLEX128", 17, torch.complex128, 10),
    _Row("QINT8", 18, torch.qint8, 12),
    _Row("QINT16", 19),
    _Row("QINT32", 20, torch.qint32, 14),
    _Row("QUINT8", 21, torch.quint8, 13),
    _Row("QUINT16", 22),
    _Row("RESOURCE", 23),
    _Row("STRING_REF", 24),
    _Row("DUAL", 25),
    _Row("VARIANT", 26),
    _Row("BF16", 27, torch.bfloat16, 15),
    _Row("UNDEFINED", 28),
    _Row("INT4", 29, torch.quint4x2, 16),
    _Row("UINT1", 30),
    _Row("INT2", 31),
    _Row("UINT2", 32),
    _Row("COMPLEX32", 33, torch.complex32, 8),
    _Row("HIFLOAT8", 34),
    _Row("FLOAT8_E5M2", 35, torch.float8_e5m2, 23),
    _Row("FLOAT8_E4M3FN", 36, torch.float8_e4m3fn, 24),
    _Row("FLOAT8_E8M0", 37, torch.float8_e8m0fnu, 44),
    _Row("FLOAT6_E3M2", 38),
    _Row("FLOAT6_E2M3", 39),
    _Row("FLOAT4_E2M1", 40),
    _Row("FLOAT4_E1M2", 41),
    _Row("MAX", 42),
)

# What torch_npu adds to the numbers of torch: 256 plus the number of DataType.
_OF_TORCH_NPU = ("INT4", "HIFLOAT8", "FLOAT8_E5M2", "FLOAT8_E4M3FN", "FLOAT8_E8M0", "FLOAT4_E2M1", "FLOAT4_E1M2")

# Formats that torch_npu has no names for.
_MORE_FORMATS = (
    ("NC1HWC0_C04", 12),
    ("FRACTAL_NZ_C0_16", 50),
    ("FRACTAL_NZ_C0_2", 52),
    ("FRACTAL_NZ_C0_4", 53),
    ("FRACTAL_NZ_C0_8", 54),
)


def _enum(name: str, members: Iterable[tuple[str, int]], doc: str) -> Any:
    made = enum.IntEnum(name, list(members), module=__name__)
    made.__doc__ = doc
    return made


ProtoDataType: Any = _enum("ProtoDataType", proto.DataType.items(), "Element types, by their numbers in messages.")
DataType: Any = _enum(
    "DataType", ((f"DT_{row.name}", row.number) for row in _ROWS), "Element types, by their numbers in attributes."
)
ScalarType: Any = _enum(
    "ScalarType",
    [
        *((str(row.dtype).removeprefix("torch.").upper(), row.scalar) for row in _ROWS if row.dtype is not None),
        *((f"NPU_{name}", 256 + DataType[f"DT_{name}"]) for name in _OF_TORCH_NPU),
    ],
    "Element types, by their numbers in arguments of operators; ``NPU_``: what torch_npu adds.",
)
Format: Any = _enum(
    "Format",
    [
        *(formats := [*_ge.FORMATS, *_MORE_FORMATS]),
        *((f"FORMAT_{name}", number) for name, number in formats),
    ],
    "How an NPU arranges the memory of a tensor; each has a second name with the prefix ``FORMAT_``.",
)

_TO_TORCH = {DataType[f"DT_{row.name}"]: row.dtype for row in _ROWS if row.dtype is not None}
_OF_TORCH = {dtype: data_type for data_type, dtype in _TO_TORCH.items()}
_OF_SCALAR = {
    **{row.scalar: DataType[f"DT_{row.name}"] for row in _ROWS if row.scalar is not None},
    **{256 + (data_type := DataType[f"DT_{name}"]): data_type for name in _OF_TORCH_NPU},
}


def as_data_type(value: Any) -> Any:
    """The ``DataType`` of a ``DataType``, its number or a dtype of torch. Raises ``RuntimeError`` for anything else."""
    if isinstance(value, torch.dtype):
        return of_torch(value)
    if isinstance(value, int) and not isinstance(value, (bool, ProtoDataType, ScalarType)) and value in _NUMBERS:
        return DataType(value)
    raise RuntimeError(
        "an element type is a member of torchair.ge.DataType, its number or a dtype of torch, "
        f"got {value!r} ({type(value).__name__})"
    )


_NUMBERS = frozenset(row.number for row in _ROWS)


def to_proto(data_type: Any) -> Any:
    """``DataType`` -> ``ProtoDataType``. Raises ``RuntimeError`` for a type that messages have no number for."""
    data_type = as_data_type(data_type)
    if data_type.name not in ProtoDataType.__members__:
        raise RuntimeError(f"messages have no number for the element type {data_type.name}")
    return ProtoDataType[data_type.name]


def of_proto(number: int) -> Any:
    """``ProtoDataType`` -> ``DataType``. Raises ``RuntimeError`` for a number that ``DataType`` has no type for."""
    known = {wire.value for wire in ProtoDataType}
    name = ProtoDataType(number).name if number in known else None
    if name not in DataType.__members__:
        raise RuntimeError(f"torchair.ge.DataType has no element type for the number {number} of a message")
    return DataType[name]


def of_torch(dtype: torch.dtype) -> Any:
    """``torch.dtype`` -> ``DataType``. Raises ``RuntimeError`` for a dtype that GE does not have."""
    if dtype not in _OF_TORCH:
        raise RuntimeError(f"GE has no element type for {dtype}; it has types for {_listed(_OF_TORCH)}")
    return _OF_TORCH[dtype]


def to_torch(data_type: Any) -> torch.dtype:
    """``DataType`` -> ``torch.dtype``. Raises ``RuntimeError`` for a type that torch does not have."""
    data_type = as_data_type(data_type)
    if data_type not in _TO_TORCH:
        raise RuntimeError(f"torch has no dtype for {data_type.name}; it has dtypes for {_listed(_TO_TORCH)}")
    return _TO_TORCH[data_type]


def of_scalar_type(number: int) -> Any:
    """``ScalarType`` -> ``DataType``. Raises ``RuntimeError`` for a number that is no ``ScalarType`` of GE."""
    if number not in _OF_SCALAR:
        raise RuntimeError(f"GE has no element type for the number {number}; it has types for {_listed(_OF_SCALAR)}")
    return _OF_SCALAR[number]


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(str(getattr(value, "name", value)) for value in values)


# The type of a result that is a number and not a tensor.
_OF_NUMBERS = (
    ((bool, torch.SymBool), torch.bool),
    ((int, torch.SymInt), torch.int64),
    ((float, torch.SymFloat), torch.float32),
)


@dataclass(frozen=True)
class TensorSpec:
    """Element type and sizes of a result. A size is an int or a ``torch.SymInt``."""

    dtype: Any  # DataType
    size: tuple[Any, ...]
    # The dimensions as FX has them in memory, that with the largest stride first; empty for row-major order, None for a
    # tensor that is not dense or not at the start of its memory.
    order: tuple[int, ...] | None = ()

    @property
    def rank(self) -> int:
        return len(self.size)

    @classmethod
    def of(cls, meta: Any) -> TensorSpec:
        """That of the value ``meta`` of an FX node: a tensor or a number. Raises ``RuntimeError`` for anything else."""
        if isinstance(meta, torch.Tensor):
            return cls(of_torch(meta.dtype), tuple(meta.size()))
        for kinds, dtype in _OF_NUMBERS:
            if isinstance(meta, kinds):
                return cls(of_torch(dtype), ())
        raise RuntimeError(f"a result of an FX node is a tensor or a number, got {meta!r} ({type(meta).__name__})")

    def __str__(self) -> str:
        return f"Tensor(dtype={as_data_type(self.dtype).name}, shape=[{', '.join(map(str, self.size))}])"
