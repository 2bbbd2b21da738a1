# SPDX-License-Identifier: Apache-2.0
"""Measures several ways to compute the same thing, fairly.

All sides of a comparison take turns within one run, so that a change of the machine's speed hits each of them. A sample
is the mean of enough calls in a row to be well above the clock's resolution. A comparison uses medians; the spread of a
ratio is that of the ratios within single rounds. A ratio counts only if the errors of both sides are within the bound.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.model_case import ERROR_FACTOR, allowed_error

SAMPLE_SECONDS = 0.02
WARM_UP_CALLS = 3
HARD_LIMITS = ("MFU", "MBU")


@dataclass(frozen=True)
class Request:
    """The measurements that a benchmark is asked for: ``samples`` of each side. ``quick`` leaves out those that take
    long."""

    sides: Sequence[str]
    samples: int
    quick: bool = False
    cases: tuple[str, ...] = ("*",)  # shell patterns; a case must match one of them
    known: frozenset[tuple[str, str]] = frozenset()  # each (benchmark, case) that need not be measured again

    @property
    def wants_few(self) -> bool:
        """Whether the benchmark chooses few cases itself."""
        return self.quick and self.cases == ("*",)

    def wants(self, benchmark: str, case: str) -> bool:
        return (benchmark, case) not in self.known and any(fnmatchcase(case, pattern) for pattern in self.cases)


@dataclass
class Side:
    """One way to compute. ``call`` is timed; ``before`` runs before every sample and is not timed."""

    name: str
    call: Callable[[], Any]
    before: Callable[[], None] | None = None
    error: float = 0.0


@dataclass
class SideResult:
    """Seconds per call of each sample, and the largest relative error against float64."""

    name: str
    seconds: list[float]
    error: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Ratio:
    """The time of one side over that of another: ``value`` is the ratio of the medians, and ``low`` and ``high`` are
    the extremes over rounds."""

    value: float
    low: float
    high: float
    accurate: bool


@dataclass
class Result:
    """One comparison. ``baseline`` names the side whose error sets the bound and against which ratios are shown.

    ``foreign_load`` is the share of the machine that other processes used during the benchmark. ``limit_seconds`` is
    the least time that the machine's limit named ``limit`` (MFU: arithmetic, MBU: reading memory, ...) allows.
    ``generated`` is the share of the time of our tasks that generated code takes, or None if it was not measured.
    ``figures`` are numbers about our side that are counted and not timed, or quotients of such numbers.
    """

    benchmark: str
    case: str
    sides: list[SideResult]
    baseline: str = "eager"
    notes: dict[str, str] = field(default_factory=dict)
    foreign_load: float = 0.0
    error_factor: float = ERROR_FACTOR
    limit: str = ""
    limit_seconds: float = 0.0
    generated: float | None = None
    figures: dict[str, float] = field(default_factory=dict)

    def share(self, side: SideResult) -> float:
        """Returns the share of the machine's limit that ``side`` reaches."""
        return self.limit_seconds / side.median

    def impossible(self) -> list[SideResult]:
        """Returns the sides that are faster than the machine: their limit was measured too low. Caches may exceed the
        speed of copying memory, which is no such limit."""
        return [side for side in self.sides if self.limit in HARD_LIMITS and self.share(side) > 1]

    def side(self, name: str) -> SideResult | None:
        return next((side for side in self.sides if side.name == name), None)

    def accurate(self, side: SideResult) -> bool:
        baseline = self.side(self.baseline)
        return side.error <= allowed_error(baseline.error if baseline else 0.0, self.error_factor)

    def ratio(self, numerator: str, denominator: str) -> Ratio | None:
        """Returns None if either side was not measured."""
        above, below = self.side(numerator), self.side(denominator)
        if above is None or below is None:
            return None
        rounds = [a / b for a, b in zip(above.seconds, below.seconds, strict=False)]  # only rounds with both
        accurate = self.accurate(above) and self.accurate(below)
        return Ratio(above.median / below.median, min(rounds), max(rounds), accurate)


def measure(benchmark: str, case: str, sides: Sequence[Side], samples: int, most_calls: int = 1 << 20) -> Result:
    """Warms every side up, then takes ``samples`` samples of each in turn.

    ``most_calls`` bounds the calls of one sample, for sides whose state has room for only so many.
    """
    counts = {side.name: calls_per_sample(side, most_calls) for side in sides}
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    order = random.Random(0)
    for _ in range(samples):
        for side in order.sample(sides, len(sides)):  # no side always follows the same other one
            seconds[side.name].append(sample(side, counts[side.name]))
    return Result(benchmark, case, [SideResult(side.name, seconds[side.name], side.error) for side in sides])


def calls_per_sample(side: Side, most_calls: int) -> int:
    """Returns how many calls fill SAMPLE_SECONDS. Warms the side up."""
    most_timed = max(1, most_calls - 1)
    count = min(WARM_UP_CALLS, most_timed)
    sample(side, count)
    single = sample(side, count)
    return max(1, min(most_timed, round(SAMPLE_SECONDS / single)))


def sample(side: Side, count: int) -> float:
    """Returns the mean seconds of ``count`` calls in a row. One call before them is not timed: it brings back into the
    processor's caches what the side before displaced. A call that fills a sample alone needs no such call."""
    if side.before is not None:
        side.before()
    call = side.call
    if count > 1:
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
