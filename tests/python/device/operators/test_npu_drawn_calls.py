# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of the operators that serving uses: Meta kernels and eager npu give the same sizes, strides, dtypes and
shared memory of results. The calls are also captured, and compiled with views of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from hypothesis import HealthCheck, Phase, given, settings
from torch.utils import _pytree as pytree

from tests.python.device import (
    calls_of_attention,
    calls_of_blocks,
    calls_of_caches,
    calls_of_experts,
    calls_of_products,
    calls_of_ranks,
    calls_of_rows,
)
from tests.python.device.captured_calls import check_captured
from tests.python.device.compiled_calls import check_views_compiled
from tests.python.device.drawn_calls import CALLS, Call, calls
from tests.python.device.npu_operators import check_alike, check_fake

TABLES = (
    calls_of_attention,
    calls_of_blocks,
    calls_of_caches,
    calls_of_experts,
    calls_of_products,
    calls_of_ranks,
    calls_of_rows,
)


def operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    found = getattr(torch_npu, packet)
    return getattr(found, overload) if overload else found


def on_meta(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def with_numbers(op: Any, call: Call, want: Any) -> None:
    args, kwargs = pytree.tree_map_only(torch.Tensor, on_meta, call)
    check_alike((op(*args, **kwargs), args, kwargs), (want, *call))


def with_symbols(op: Any, call: Call, want: Any) -> None:
    check_fake(op, *call, want, dynamic=True)


def in_a_graph(op: Any, call: Call, want: Any) -> None:
    check_captured(op, call, repeats=False)  # rows outside of groups, and workspaces, hold arbitrary bytes


def views_in_a_graph(op: Any, call: Call, want: Any) -> None:
    """Checks a graph of the call and of views of its results, for any sizes."""
    check_views_compiled(op, call)


# Ways to compare results, each with the number of calls of an operator in `make test` and in `make long`.
WAYS = {with_numbers: (6, 500), with_symbols: (2, 30), in_a_graph: (2, 100), views_in_a_graph: (2, 20)}

# Ways that compile: `make test` has them for one operator of so many, and leaves out the call that is drawn first,
# which is the simplest.
SLOW = {with_symbols: 2, views_in_a_graph: 8}


def check_calls(name: str, way: Callable[[Any, Call, Any], None], examples: int, repeatable: bool) -> None:
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
        nonlocal drawn
        drawn += 1
        if drawn > left_out:
            args, kwargs = call
            way(op, call, op(*args, **kwargs))

    drawn, left_out = 0, int(repeatable and way in SLOW)
    each()
    assert drawn > left_out


DRAWN = [
    pytest.param(name, way, marks=[pytest.mark.long] * (number % SLOW.get(way, 1) > 0))
    for number, name in enumerate(CALLS)
    for way in WAYS
]


@pytest.mark.parametrize(("name", "way"), DRAWN)
def test_meta_is_like_eager(name: str, way: Callable[[Any, Call, Any], None]) -> None:
    check_calls(name, way, WAYS[way][0], repeatable=True)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_meta_is_like_eager_in_many_calls(name: str, way: Callable[[Any, Call, Any], None]) -> None:
    """Draws other calls each time. A failure prints how to repeat it."""
    check_calls(name, way, WAYS[way][1], repeatable=False)
