# SPDX-License-Identifier: Apache-2.0
"""Compares random programs of control flow with eager mode: results, and inputs after the call."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.fuzz.flow import function_of, source_of
from tests.python.fuzz.test_random_programs import MANY_VARIABLE

MANY = 5_000

# The largest share of programs that may be left out because torch has no control flow of this kind.
MOST_LEFT_OUT = 0.8


def run(seeds: Iterable[int]) -> None:
    seeds = list(seeds)
    left_out = sum(not is_equal_to_eager(seed) for seed in seeds)
    assert left_out <= MOST_LEFT_OUT * len(seeds)


def is_equal_to_eager(seed: int) -> bool:
    """Whether torch runs the program of a seed in eager mode. Raises ``AssertionError`` if it then does something else
    when it is compiled, or runs a task in Python."""
    source = source_of(seed)
    fn = function_of(source)
    npugraph.reset()
    counters["npugraph_ex"].clear()
    compiled = compile_ex(fn)
    for sign in (1, -1):
        own, given = ((torch.full((4,), sign), torch.arange(1, 5)) for _ in range(2))
        with torch.no_grad():
            try:
                want = fn(*given)
            except RuntimeError:
                return False
            try:
                assert_same((compiled(*own), own), (want, given))
                artifacts = npugraph.artifacts()
                assert artifacts or counters["npugraph_ex"]["overlapping_inputs"]  # loops whose functions write these
                assert not any(task.kind == "python" for one in artifacts for task in one.tasks)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error}\n{source}") from error
    return True


def test_random_control_flow_equals_eager() -> None:
    run(range(8))


@pytest.mark.long
def test_much_random_control_flow_equals_eager() -> None:
    first = random.SystemRandom().randrange(10**6, 10**9)
    run(range(first, first + min(MANY, int(os.environ.get(MANY_VARIABLE, MANY)))))
