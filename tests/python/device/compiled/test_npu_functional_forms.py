# SPDX-License-Identifier: Apache-2.0
"""Operators that write arguments, in compiled graphs: python/npugraph/fx/decompose/functional_forms.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_npu

import npugraph
from tests.python.device.npu_operators import integers, normal

HEADS, KEY_HEADS, SIZE = 6, 2, 8


def compiled(function: Callable[..., object], *arguments: torch.Tensor) -> tuple[object, str]:
    """Returns the results of the compiled function, and its Program."""
    call = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    result = call(*arguments)
    return result, npugraph.artifacts()[-1].program()


def rotate(positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, angles: torch.Tensor) -> None:
    torch_npu._npu_rotary_embedding(positions, query, key, SIZE, angles, True)


def inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    qkv = normal(5, (HEADS + 2 * KEY_HEADS) * SIZE, dtype=dtype, seed=1).npu()
    return integers(0, 16, 5).npu(), qkv, normal(16, SIZE, dtype=dtype, seed=2).npu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_composed_operators_are_expanded(dtype: torch.dtype) -> None:
    def function(positions, qkv, angles):
        query, key, _ = qkv.split([HEADS * SIZE, KEY_HEADS * SIZE, KEY_HEADS * SIZE], -1)
        query, key = query.contiguous(), key.contiguous()
        rotate(positions, query, key, angles)
        return query * 2, key

    arguments = inputs(dtype)
    result, program = compiled(function, *arguments)
    assert "_npu_rotary_embedding" not in program
    torch.testing.assert_close(result, function(*arguments))


def test_written_arguments_may_be_views() -> None:
    def function(positions, qkv, angles):
        whole = qkv + 1
        query, key, _ = whole.split([HEADS * SIZE, KEY_HEADS * SIZE, KEY_HEADS * SIZE], -1)
        rotate(positions, query, key, angles)
        return whole * 2, query

    arguments = inputs()
    result, program = compiled(function, *arguments)
    assert "_npu_rotary_embedding" not in program
    torch.testing.assert_close(result, function(*arguments))


def test_inputs_are_written() -> None:
    def function(positions, query, key, angles):
        rotate(positions, query, key, angles)
        return query.sum()

    positions, qkv, angles = inputs()
    query, key = qkv[:, : HEADS * SIZE].contiguous(), qkv[:, : KEY_HEADS * SIZE].contiguous()
    expected = (query.clone(), key.clone())
    total = function(positions, *expected, angles)
    result, program = compiled(function, positions, query, key, angles)
    assert "_npu_rotary_embedding" not in program
    torch.testing.assert_close((result, query, key), (total, *expected))


def test_writes_of_a_few_rows_stay_whole() -> None:
    def function(key, cache, slots):
        torch_npu._npu_reshape_and_cache(key, key, cache, cache, slots)
        return cache.sum()

    key, cache, slots = (
        normal(3, KEY_HEADS, SIZE).npu(),
        normal(4, 4, KEY_HEADS, SIZE, seed=1).npu(),
        integers(0, 16, 3, dtype=torch.int32).npu(),
    )
    expected = cache.clone()
    total = function(key, expected, slots)
    result, program = compiled(function, key, cache, slots)
    assert "_npu_reshape_and_cache" in program
    torch.testing.assert_close((result, cache), (total, expected))


def test_composites_of_users_are_expanded() -> None:
    def scale_(x: torch.Tensor, by: float) -> None:
        x.mul_(by)

    with torch.library._scoped_library("functional_forms", "FRAGMENT") as library:
        library.define("scale_(Tensor(a!) x, float by) -> ()")
        for key in ("PrivateUse1", "CompositeImplicitAutograd"):
            library.impl("scale_", scale_, key)

        def function(x):
            y = x + 1
            torch.ops.functional_forms.scale_(y, 3.0)
            return y - 1

        x = normal(4, 4).npu()
        result, program = compiled(function, x)
        assert "scale_" not in program
        torch.testing.assert_close(result, (x + 1) * 3 - 1)


def test_parts_of_composites_of_users_are_expanded() -> None:
    def normed(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_rms_norm(x, gamma)[0]

    with torch.library._scoped_library("functional_forms", "FRAGMENT") as library:
        library.define("normed(Tensor x, Tensor gamma) -> Tensor")
        for key in ("PrivateUse1", "CompositeImplicitAutograd"):
            library.impl("normed", normed, key)
        x, gamma = normal(4, 8).npu(), normal(8, seed=1).npu()
        result, program = compiled(lambda x, gamma: torch.ops.functional_forms.normed(x, gamma) + 1, x, gamma)
        assert "normed" not in program and "rms_norm" not in program
        torch.testing.assert_close(result, normed(x, gamma) + 1)
