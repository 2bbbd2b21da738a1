# SPDX-License-Identifier: Apache-2.0
"""The numberings of element types and formats, as other programs use them."""

from __future__ import annotations

import pytest
import torch

from npugraph.ge import data_types
from npugraph.ge.data_types import DataType, Format, ProtoDataType, ScalarType

NUMBERS = """
FLOAT 0, FLOAT16 1, INT8 2, INT32 3, UINT8 4, INT16 6, UINT16 7, UINT32 8, INT64 9, UINT64 10, DOUBLE 11, BOOL 12,
STRING 13, DUAL_SUB_INT8 14, DUAL_SUB_UINT8 15, COMPLEX64 16, COMPLEX128 17, QINT8 18, QINT16 19, QINT32 20, QUINT8 21,
QUINT16 22, RESOURCE 23, STRING_REF 24, DUAL 25, VARIANT 26, BF16 27, UNDEFINED 28, INT4 29, UINT1 30, INT2 31,
UINT2 32, COMPLEX32 33, HIFLOAT8 34, FLOAT8_E5M2 35, FLOAT8_E4M3FN 36, FLOAT8_E8M0 37, FLOAT6_E3M2 38, FLOAT6_E2M3 39,
FLOAT4_E2M1 40, FLOAT4_E1M2 41, MAX 42"""

SCALARS = """
0 UINT8, 1 INT8, 2 INT16, 3 INT32, 4 INT64, 5 FLOAT16, 6 FLOAT, 7 DOUBLE, 8 COMPLEX32, 9 COMPLEX64, 10 COMPLEX128,
11 BOOL, 12 QINT8, 13 QUINT8, 14 QINT32, 15 BF16, 16 INT4, 23 FLOAT8_E5M2, 24 FLOAT8_E4M3FN, 27 UINT16, 28 UINT32,
29 UINT64, 44 FLOAT8_E8M0, 285 INT4, 290 HIFLOAT8, 291 FLOAT8_E5M2, 292 FLOAT8_E4M3FN, 293 FLOAT8_E8M0,
296 FLOAT4_E2M1, 297 FLOAT4_E1M2"""

FORMATS = """
UNDEFINED -1, NCHW 0, NHWC 1, ND 2, NC1HWC0 3, FRACTAL_Z 4, NC1HWC0_C04 12, HWCN 16, NDHWC 27, FRACTAL_NZ 29, NCDHW 30,
NDC1HWC0 32, FRACTAL_Z_3D 33, NC 35, NCL 47, FRACTAL_NZ_C0_16 50, FRACTAL_NZ_C0_2 52, FRACTAL_NZ_C0_4 53,
FRACTAL_NZ_C0_8 54"""


def pairs(text: str) -> list[list[str]]:
    return [pair.split() for pair in text.split(",")]


@pytest.mark.feature("6.35")
def test_numbers_of_attributes() -> None:
    assert {member.name: member.value for member in DataType} == {f"DT_{name}": int(n) for name, n in pairs(NUMBERS)}


def test_numbers_of_arguments() -> None:
    expected = {int(number): DataType[f"DT_{name}"] for number, name in pairs(SCALARS)}
    assert {number: data_types.of_scalar_type(number) for number in expected} == expected
    assert sorted(ScalarType) == sorted(expected)
    with pytest.raises(RuntimeError, match=r"GE has no element type for the number 17; it has types for 6, 5"):
        data_types.of_scalar_type(17)


@pytest.mark.feature("6.35")
def test_numbers_of_formats() -> None:
    assert {member.name: member.value for member in Format} == {name: int(number) for name, number in pairs(FORMATS)}
    assert Format.FORMAT_FRACTAL_NZ is Format.FRACTAL_NZ


@pytest.mark.feature("6.35")
def test_messages_and_attributes_number_types_apart() -> None:
    both = [data_type for data_type in DataType if data_type.name in ProtoDataType.__members__]
    assert {data_type.name for data_type in DataType if data_type not in both} == {"DT_MAX"}
    for data_type in both:
        wire = data_types.to_proto(data_type)
        assert wire.name == data_type.name and data_types.of_proto(wire) is data_type
    assert data_types.to_proto(DataType.DT_FLOAT) == 1 and data_types.to_proto(DataType.DT_FLOAT8_E5M2) == 34
    with pytest.raises(RuntimeError, match="messages have no number for the element type DT_MAX"):
        data_types.to_proto(DataType.DT_MAX)
    for number in (ProtoDataType.DT_HIFLOAT4, 77):
        with pytest.raises(RuntimeError, match=f"no element type for the number {int(number)} of a message"):
            data_types.of_proto(number)


def test_dtypes_of_torch() -> None:
    with_dtype = {number for number in range(64) if number in ScalarType.__members__.values()}
    assert with_dtype
    for number in with_dtype:
        data_type = data_types.of_scalar_type(number)
        assert data_types.of_torch(data_types.to_torch(data_type)) is data_type
    expected = {"FLOAT": torch.float32, "BF16": torch.bfloat16, "BOOL": torch.bool, "FLOAT8_E8M0": torch.float8_e8m0fnu}
    assert {name: data_types.to_torch(DataType[f"DT_{name}"]) for name in expected} == expected
    with pytest.raises(RuntimeError, match=r"GE has no element type for torch.bits8; it has types for torch.float32"):
        data_types.of_torch(torch.bits8)
    with pytest.raises(RuntimeError, match="torch has no dtype for DT_STRING; it has dtypes for DT_FLOAT"):
        data_types.to_torch(DataType.DT_STRING)


def test_what_is_taken_as_an_element_type() -> None:
    assert data_types.as_data_type(27) is data_types.as_data_type(torch.bfloat16) is DataType.DT_BF16
    for wrong in (ProtoDataType.DT_FLOAT, ScalarType.FLOAT32, True, 5, 43, "DT_FLOAT", None):
        with pytest.raises(RuntimeError, match=r"an element type is a member of torchair.ge.DataType, .* got"):
            data_types.as_data_type(wrong)
