# SPDX-License-Identifier: Apache-2.0
"""Measuring several ways to compute the same thing, fairly.

All sides of a comparison take turns within one run, so that a change of the machine's speed hits each of them.
A sample is the mean of enough calls in a row to be well above the clock's resolution. Compared are medians; the
spread of a ratio is that of the ratios within single rounds. A ratio counts only where the error of both sides
is within the bound.
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


@dataclass(frozen=True)
class Request:
    """What a benchmark is asked to measure. ``samples`` of each side; ``quick`` leaves out what takes long."""

    sides: Sequence[str]
    samples: int
    quick: bool = False
    cases: tuple[str, ...] = ("*",)  # patterns as of a shell, of which a case matches one
    known: frozenset[tuple[str, str]] = frozenset()  # (benchmark, case) that need not be measured again

    def wants(self, benchmark: str, case: str) -> bool:
        return (benchmark, case) not in self.known and any(fnmatchcase(case, pattern) for pattern in self.cases)


@dataclass
class Side:
    """One way to compute: ``call`` is timed; ``before`` runs untimed ahead of every sample."""

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
    """Time of one side over that of another: of medians, and the extremes over rounds."""

    value: float
    low: float
    high: float
    accurate: bool


@dataclass
class Result:
    """One comparison. ``baseline`` names the side whose error sets the bound and against which ratios are shown.

    ``foreign_load`` is the share of the machine that other processes used during the benchmark. ``limit_seconds`` is
    the least time that the machine's limit named ``limit`` (MFU: arithmetic, MBU: reading memory, ...) allows.
    ``generated`` is the share of the time of our tasks that generated code takes, where that was measured. ``figures``
    is what was counted of our side instead of timed, or is a quotient of such counts.
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
        """Of the machine's limit that ``side`` reaches."""
        return self.limit_seconds / side.median

    def side(self, name: str) -> SideResult | None:
        return next((side for side in self.sides if side.name == name), None)

    def accurate(self, side: SideResult) -> bool:
        baseline = self.side(self.baseline)
        return side.error <= allowed_error(baseline.error if baseline else 0.0, self.error_factor)

    def ratio(self, numerator: str, denominator: str) -> Ratio | None:
        """None when either side was not measured."""
        above, below = self.side(numerator), self.side(denominator)
        if above is None or below is None:
            return None
        rounds = [a / b for a, b in zip(above.seconds, below.seconds, strict=False)]  # of the rounds with both
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
    """Calls that fill SAMPLE_SECONDS; also the side's warm-up."""
    most_timed = max(1, most_calls - 1)
    count = min(WARM_UP_CALLS, most_timed)
    sample(side, count)
    single = sample(side, count)
    return max(1, min(most_timed, round(SAMPLE_SECONDS / single)))


def sample(side: Side, count: int) -> float:
    """Mean seconds of ``count`` calls in a row. One before them, untimed, fetches into the caches what the side before
    left outside; a call that fills a sample alone needs none."""
    if side.before is not None:
        side.before()
    call = side.call
    if count > 1:
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
