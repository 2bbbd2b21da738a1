# SPDX-License-Identifier: Apache-2.0
"""Compares small random programs with eager mode. operators.py has their steps, and coverage.py the features that must
occur."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
import torch

import npugraph
from tests.python.fuzz import coverage, operators
from tests.python.fuzz.check import Call, TorchDiffers, check_sized, check_with_dynamo, check_without_dynamo
from tests.python.fuzz.generate import GENERAL, SIZED, TRAINED, Draft, Family
from tests.python.fuzz.program import Program
from tests.python.fuzz.slots import Slots

STATIC = ((4,),)
# In each tuple, the first size is the one for which the function is compiled first.
DYNAMIC = ((5, 3, 1), (3, 7, 1), (2, 6, 0))


def with_dynamo(program: Program) -> None:
    check_with_dynamo(program, [Call(4, seed=0), Call(4, seed=1)], dynamic=False, one_graph=True)


def with_symbolic_sizes(program: Program) -> None:
    check_with_dynamo(program, [Call(n, seed) for seed, n in enumerate(program.sizes)], dynamic=True)


def with_changing_aliases(program: Program) -> None:
    calls = [Call(4, 0, separate=True), Call(4, 1), Call(4, 2, separate=True), Call(4, 3)]
    check_with_dynamo(program, calls, dynamic=False)


def without_dynamo(program: Program) -> None:
    check_without_dynamo(program, [Call(4, seed=0), Call(4, seed=1)])


def of_sizes(program: Program) -> None:
    check_sized(program, [Call(n, seed) for seed, n in enumerate(program.sizes)])


def with_gradients(program: Program) -> None:
    check_sized(program, [Call(n, seed) for seed, n in enumerate(program.sizes)], gradients=True)


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to check programs: the check, the sizes, how many programs of `make test` have each feature, the family."""

    check: Callable[[Program], None]
    sizes: tuple[tuple[int, ...], ...]
    times: int
    family: Family = GENERAL


MODES = {
    "static": Mode(with_dynamo, STATIC, 2),
    "symbolic": Mode(with_symbolic_sizes, DYNAMIC, 1),
    "aliasing": Mode(with_changing_aliases, STATIC, 2),
    "graph": Mode(without_dynamo, STATIC, 6),
    "sizes": Mode(of_sizes, DYNAMIC, 1, SIZED),
    "gradients": Mode(with_gradients, DYNAMIC, 1, TRAINED),
}

# `make test` chooses among the programs of so many seeds.
FEW = 300
# The number of programs of each mode that `make long` tries, unless the variable gives another number.
MANY = 100_000
MANY_VARIABLE = "RANDOM_PROGRAMS"

# The largest share of programs that may be left out because torch, without our backend, differs from eager mode.
MOST_LEFT_OUT = 0.15


def run(mode: str, seeds: Iterable[int]) -> None:
    how = MODES[mode]
    for seed in seeds:
        draft = Draft.of_seed(seed, how.family, how.sizes)
        if (failure := difference(how, draft, mode)) is not None:
            raise AssertionError(f"mode {mode}, seed {seed}: {failure}\nat its smallest: {smallest(how, draft)}")
    assert coverage.share_left_out(mode) <= MOST_LEFT_OUT


def chosen(how: Mode) -> Iterable[int]:
    """Seeds of few programs of which ``how.times`` have each feature, or as many as there are among the first seeds."""
    features = {seed: Draft.of_seed(seed, how.family, how.sizes).decode().features for seed in range(FEW)}
    occurrences = Counter(itertools.chain.from_iterable(features.values()))
    missing = Counter({feature: min(how.times, count) for feature, count in occurrences.items()})
    while missing := +missing:
        seed = max(features, key=lambda seed: len(features[seed] & missing.keys()))
        missing.subtract(features.pop(seed))
        yield seed


def difference(how: Mode, draft: Draft, mode: str | None = None) -> AssertionError | None:
    """Returns the difference from eager mode, or None. If ``mode`` is given, its coverage table counts the program."""
    program = draft.decode()
    try:
        how.check(program)
    except TorchDiffers as differs:
        if mode is not None:
            coverage.note_rejected(mode, str(differs))
    except AssertionError as failure:
        return failure
    else:
        if mode is not None:
            coverage.note(mode, program.features)
    return None


def smallest(how: Mode, draft: Draft) -> AssertionError | None:
    """Removes parts of a draft as long as the rest differs from eager mode. Returns the last difference, or None if
    every smaller draft is equal to eager mode."""
    found = None
    while True:
        tried = ((smaller, difference(how, smaller)) for smaller in draft.smaller())
        smaller, failure = next((each for each in tried if each[1] is not None), (None, None))
        if smaller is None:
            return found
        draft, found = smaller, failure


@pytest.mark.filterwarnings("ignore:var:UserWarning", "ignore:Tensor.mT:UserWarning")
@pytest.mark.parametrize("mode", MODES)
def test_random_programs_equal_eager(mode: str) -> None:
    coverage.started(mode)
    run(mode, chosen(MODES[mode]))


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_many_random_programs_equal_eager(mode: str) -> None:
    """Tries other programs in each run. A failure names its seed."""
    first = random.SystemRandom().randrange(10**6, 10**9)
    run(mode, range(first, first + int(os.environ.get(MANY_VARIABLE, MANY))))


@pytest.mark.parametrize("step", operators.GROUPS["quantised product"], ids=lambda step: step.template[:40])
def test_quantised_products_multiply_codes(step: operators.Operator) -> None:
    """The graph passes turn the steps of this group, as they are written, into products of codes."""
    names = {"x": torch.randn(3, 8), "y": torch.arange(40).reshape(5, 8) % 7 - 3}
    source = Slots(names, list(names), [0] * 9).fill(step.template)
    program = Program((), tuple(names), (f"r = {source}",), ("r",), (1,), None, frozenset())
    torch.compile(program.function(), backend="npugraph_ex", fullgraph=True, dynamic=True)(*names.values())
    artifact = npugraph.artifacts()[-1]
    assert any("int8pack_mm" in task.name or "_int_mm" in task.name for task in artifact.tasks), artifact.tasks


def test_every_feature_occurs() -> None:
    for mode, how in MODES.items():
        if not coverage.has_started(mode):
            coverage.started(mode)
            run(mode, chosen(how))
    assert coverage.missing() == []
