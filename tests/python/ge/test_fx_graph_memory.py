# SPDX-License-Identifier: Apache-2.0
"""Calls that name places in memory: as_strided reads what it reads in eager mode, wherever its input lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchair
from tests.python.backend.runs.test_aliasing_outputs import OTHER_TYPES, compare_other_types

BASE = torch.arange(16.0)


def check(
    function: Callable[[torch.Tensor], torch.Tensor], *inputs: torch.Tensor, strict: bool = False, **options: Any
) -> None:
    """Compares calls of one compiled function with eager mode. With ``strict``, all of it is one graph of GE."""
    config = torchair.CompilerConfig()
    config.debug.missing_converters = "error" if strict else "run_eagerly"
    torch._dynamo.reset()
    fast = torch.compile(function, backend=torchair.get_npu_backend(config), **options)
    with torch._dynamo.config.patch(error_on_recompile=not options):
        for x in inputs:
            found, expected = fast(x), function(x)
            assert torch.equal(found, expected) and found.stride() == expected.stride()


@pytest.fixture(params=[False, True], ids=["inference", "training"])
def leaf(request: pytest.FixtureRequest) -> Callable[[torch.Tensor], torch.Tensor]:
    """Makes inputs of graphs for inference and for training."""
    return lambda x: x.detach().requires_grad_(request.param)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.as_strided(x, (2,), (1,), 0) + 1,
        lambda x: torch.as_strided(x, (2,), (1,), 0),
        lambda x: x.view(2, 2).as_strided((2,), (1,), 2)[1:] * 2,
    ],
)
def test_an_offset_counts_from_the_start_of_the_memory(function: Any, leaf: Any) -> None:
    check(function, leaf(BASE[:4]), leaf(BASE[4:8]), leaf(BASE[8:12]))


def test_without_an_offset_places_count_from_the_input(leaf: Any) -> None:
    check(lambda x: x.as_strided((2, 2), (1, 2)) + 1, leaf(BASE[:4]), leaf(BASE[4:8]), strict=True)


def test_places_of_a_result_count_from_its_start(leaf: Any) -> None:
    check(lambda x: (x * 2).as_strided((2,), (2,), 1) + 1, leaf(BASE[:4]), leaf(BASE[4:8]), strict=True)


def test_sizes_and_strides_that_follow_from_inputs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).as_strided((x.shape[0] // 2,), (2,)) + 1

    check(function, BASE[:4], BASE[:6], BASE[2:12], dynamic=True)


def test_places_behind_the_input_that_its_memory_has() -> None:
    check(lambda x: x.as_strided((8,), (1,)) + 1, BASE[:4], BASE[4:8])


@pytest.mark.parametrize("window", [slice(0, None), slice(1, None, 2)], ids=["dense", "gaps"])
def test_parts_of_written_inputs_at_any_offset(window: slice, leaf: Any) -> None:
    """AOTAutograd takes places from results where sizes are symbolic."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)[: x.shape[0] // 2]

    fast = torch.compile(function, backend=torchair.get_npu_backend(), dynamic=True)
    for first, rows in ((0, 5), (1, 4), (3, 6)):
        given, wanted = (leaf(torch.arange(80.0).view(10, 8)).clone() for _ in range(2))
        found = fast(given[first : first + rows, window])
        expected = function(wanted[first : first + rows, window])
        assert torch.equal(found, expected) and torch.equal(given, wanted)
        assert found.storage_offset() == expected.storage_offset() and found._base is given


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_views_of_inputs_as_other_types(name: str) -> None:
    with torch.no_grad():
        compare_other_types(name, torchair.get_npu_backend())


@pytest.mark.parametrize("columns", [slice(1, None, 2), slice(2, None)], ids=["gaps", "tails"])
def test_eager_parts_have_the_strides_that_the_next_graph_needs(columns: slice) -> None:
    """slice_scatter keeps the gaps of x, which no fake tensor has where nobody sees them."""

    def function(x: torch.Tensor) -> torch.Tensor:
        x[1:].add_(1)
        return x + 1

    fast = torch.compile(function, backend=torchair.get_npu_backend(), dynamic=True)
    for rows in (5, 4):
        given, wanted = torch.ones(rows, 16), torch.ones(rows, 16)
        assert torch.equal(fast(given[:, columns]), function(wanted[:, columns])) and torch.equal(given, wanted)
