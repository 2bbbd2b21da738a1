# SPDX-License-Identifier: Apache-2.0
"""Constants of GE graphs: types, bytes, and what has no values."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy
import pytest
import torch
from hypothesis import given, settings
from torch._subclasses.fake_tensor import FakeTensorMode

from npugraph.ge import apis as ge
from npugraph.ge import const, data_types, proto
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import GeGraph, Tensor


def made(value: Any, **how: Any) -> Tensor:
    with GeGraph(name="g").context():
        return ge.Const(value, **how)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and const.tensor_def(a) == const.tensor_def(b)


@pytest.mark.feature("6.33")
def test_a_constant_is_an_operator_with_bytes() -> None:
    node = made([[1, 2], [3, 4]], dtype=DataType.DT_INT16, node_name="c").node
    value = node.attr["value"].t
    assert (node.name, node.type, list(node.input)) == ("c", "Const", [])
    assert value.data == b"\1\0\2\0\3\0\4\0"
    assert (value.desc.dtype, list(value.desc.shape.dim), value.desc.layout) == (proto.DT_INT16, [2, 2], "ND")
    assert node.output_desc[0] == value.desc and node.output_desc[0].name == "y"
    assert node.attr["_readable_value"].s == b"[[1, 2], [3, 4]]"
    assert "_readable_value" not in made(1, readable=False).node.attr


@pytest.mark.feature("6.33")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, torch.tensor(True)),
        (3, torch.tensor(3)),
        (2.5, torch.tensor(2.5)),
        (1j, torch.tensor(1j)),
        ([1, True], torch.tensor([1, 1])),
        ([1, 2.5], torch.tensor([1, 2.5])),
        ([], torch.empty(0, dtype=torch.int64)),
        (numpy.arange(3, dtype=numpy.uint16), torch.tensor([0, 1, 2], dtype=torch.uint16)),
        (numpy.float64(2), torch.tensor(2.0, dtype=torch.float64)),
        (torch.ones(2, 3, dtype=torch.bfloat16).t(), torch.ones(3, 2, dtype=torch.bfloat16)),
    ],
)
def test_types_of_constants(value: Any, expected: torch.Tensor) -> None:
    constant = made(value)
    assert same_bits(const.tensor_of(constant.node.attr["value"].t), expected)
    assert (constant.dtype, constant.rank) == (data_types.of_torch(expected.dtype), expected.dim())


@pytest.mark.feature("6.33")
def test_a_given_type_is_made_at_once() -> None:
    assert made(0.1, dtype=DataType.DT_DOUBLE).node.attr["value"].t.data == numpy.float64(0.1).tobytes()
    assert made([1.0], dtype=torch.float8_e8m0fnu).node.attr["value"].t.data == b"\x7f"
    assert made(torch.ones(1, requires_grad=True), dtype=DataType.DT_BOOL).node.attr["value"].t.data == b"\1"


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ("text", None, r"a constant is a number, a list of numbers, .*, got 'text' \(str\)"),
        ([1, "x"], None, r"a constant is .*, got \[1, 'x'\] \(list\)"),
        ([[1], 2], None, r"a constant is .*, got \[\[1\], 2\] \(list\)"),
        (300, DataType.DT_UINT8, r"a constant is .*, got 300 \(int\)"),
        (2**70, None, "a constant is .*"),
        (torch.ones(1, device="meta"), None, "a tensor of torch that has values"),
        (1, DataType.DT_STRING, "torch has no dtype for DT_STRING"),
        (1, DataType.DT_INT4, "torch does not compute with DT_INT4, so it makes no constants"),
    ],
)
def test_what_has_no_values(value: Any, dtype: Any, message: str) -> None:
    graph = GeGraph(name="g")
    with graph.context(), pytest.raises(RuntimeError, match=message):
        ge.Const(value, dtype=dtype)
    assert len(graph.op) == 0


def test_constants_are_real_while_a_program_is_traced() -> None:
    with FakeTensorMode():
        fake = torch.ones(2)
        assert made([1.0, 2.0]).node.attr["value"].t.data == numpy.array([1, 2], numpy.float32).tobytes()
        with pytest.raises(RuntimeError, match="a tensor of torch that has values"):
            made(fake)


WITH_VALUES = sorted({data_types.of_scalar_type(n) for n in (*range(12), 15, 23, 24, 27, 28, 29, 44)})


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(WITH_VALUES), st.lists(st.integers(0, 3), max_size=3), st.binary(min_size=16, max_size=16))
def test_bytes_of_all_types(dtype: Any, size: list[int], pattern: bytes) -> None:
    values = torch.empty(size, dtype=data_types.to_torch(dtype))
    data = (pattern * values.numel())[: values.numel() * values.itemsize]
    if dtype == DataType.DT_BOOL:
        data = bytes(byte & 1 for byte in data)
    values = const.from_bytes(data, dtype, size)
    assert const.tensor_def(values).data == data and list(values.shape) == size
    constant = made(values, readable=False)
    assert constant.dtype is dtype and constant.node.attr["value"].t.data == data


def test_bytes_that_do_not_fit() -> None:
    for data, size in ((b"123", [1]), (b"1234", [2]), (b"1234", [-1])):
        with pytest.raises(RuntimeError, match=r"a tensor of torch.float32 and size .* is not made of \d bytes"):
            const.from_bytes(data, DataType.DT_FLOAT, size)
