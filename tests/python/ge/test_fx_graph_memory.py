# SPDX-License-Identifier: Apache-2.0
"""Calls that name places in memory: as_strided reads what it reads in eager mode, wherever its input lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchair

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
