# SPDX-License-Identifier: Apache-2.0
"""Random small programs, compiled against eager mode. operators.py has their steps, coverage.py what must occur."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.python.fuzz import coverage
from tests.python.fuzz.check import Call, TorchDiffers, check_with_dynamo, check_without_dynamo
from tests.python.fuzz.generate import programs
from tests.python.fuzz.program import Program

STATIC = st.just((4,))
# The size at which the function is compiled, then others.
DYNAMIC = st.sampled_from([(5, 3, 1), (3, 7, 1), (2, 6, 0)])


def with_dynamo(program: Program) -> None:
    check_with_dynamo(program, [Call(4, seed=0), Call(4, seed=1)], dynamic=False, one_graph=True)


def with_symbolic_sizes(program: Program) -> None:
    check_with_dynamo(program, [Call(n, seed) for seed, n in enumerate(program.sizes)], dynamic=True)


def with_changing_aliases(program: Program) -> None:
    calls = [Call(4, 0, separate=True), Call(4, 1), Call(4, 2, separate=True), Call(4, 3)]
    check_with_dynamo(program, calls, dynamic=False)


def without_dynamo(program: Program) -> None:
    check_without_dynamo(program, [Call(4, seed=0), Call(4, seed=1)])


# How programs are checked, the sizes that they are made for, and how many in `make test` and in `make long`.
MODES = {
    "static": (with_dynamo, STATIC, 120, 2000),
    "symbolic": (with_symbolic_sizes, DYNAMIC, 70, 1500),
    "aliasing": (with_changing_aliases, STATIC, 80, 1500),
    "graph": (without_dynamo, STATIC, 400, 10000),
}


# Of all programs, those that torch alone, with another backend, runs differently from eager mode.
MOST_LEFT_OUT = 0.15


def run(
    mode: str,
    check: Callable[[Program], None],
    sizes: st.SearchStrategy[tuple[int, ...]],
    examples: int,
    repeatable: bool = True,
) -> None:
    @settings(
        max_examples=examples,
        derandomize=repeatable,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=not repeatable,
    )
    @given(programs(sizes))
    def each(program: Program) -> None:
        try:
            check(program)
        except TorchDiffers as differs:
            coverage.note_rejected(mode, str(differs))
        else:
            coverage.note(mode, program.features)

    each()
    assert coverage.share_left_out(mode) <= MOST_LEFT_OUT


@pytest.mark.filterwarnings("ignore:var:UserWarning", "ignore:Tensor.mT:UserWarning")
@pytest.mark.parametrize("mode", MODES)
def test_random_programs_equal_eager(mode: str) -> None:
    check, sizes, examples, _ = MODES[mode]
    coverage.started(mode)
    run(mode, check, sizes, examples)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_many_random_programs_equal_eager(mode: str) -> None:
    """Others each time; a failure prints how to repeat it."""
    check, sizes, _, examples = MODES[mode]
    run(mode, check, sizes, examples, repeatable=False)


def test_every_feature_occurs() -> None:
    for mode, (check, sizes, examples, _) in MODES.items():
        if not coverage.has_started(mode):
            coverage.started(mode)
            run(mode, check, sizes, examples)
    assert coverage.missing() == []
