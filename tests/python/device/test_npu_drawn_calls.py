# SPDX-License-Identifier: Apache-2.0
"""Sizes, strides, types and shared memory of results: Meta kernels against eager npu, for drawn calls of the operators
that serving takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from hypothesis import HealthCheck, Phase, given, settings
from torch.utils import _pytree as pytree

from tests.python.device import calls_of_attention, calls_of_caches, calls_of_experts, calls_of_products, calls_of_rows
from tests.python.device.drawn_calls import CALLS, Call, calls
from tests.python.device.npu_operators import check_alike, check_fake

TABLES = calls_of_attention, calls_of_caches, calls_of_experts, calls_of_products, calls_of_rows


def operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    found = getattr(torch_npu, packet)
    return getattr(found, overload) if overload else found


def on_meta(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def check_call(name: str, examples: int, repeatable: bool) -> None:
    op = operator(name)

    @settings(
        max_examples=examples,
        derandomize=repeatable,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=not repeatable,
    )
    @given(calls(name))
    def each(call: Call) -> None:
        args, kwargs = call
        want = op(*args, **kwargs)
        meta_args, meta_kwargs = pytree.tree_map_only(torch.Tensor, on_meta, call)
        check_alike((op(*meta_args, **meta_kwargs), meta_args, meta_kwargs), (want, args, kwargs))
        check_fake(op, args, kwargs, want, dynamic=True)

    each()


@pytest.mark.parametrize("name", CALLS)
def test_meta_is_like_eager(name: str) -> None:
    check_call(name, examples=2, repeatable=True)


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_meta_is_like_eager_in_many_calls(name: str) -> None:
    """Others each time; a failure prints how to repeat it."""
    check_call(name, examples=150, repeatable=False)
