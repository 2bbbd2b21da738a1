# SPDX-License-Identifier: Apache-2.0
"""Kinds of bars. A bar is a promise that the results of benchmarks meet or do not meet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.harness import Ratio, Result


def line(met: bool, promise: str) -> str:
    return f"{'met' if met else 'NOT MET':<8} {promise}"


def line_of_worst(ratios: Mapping[str, float], limit: float, compared: str) -> str | None:
    """Returns the line for the worst of ``ratios``, by case. The ratio of wrong results is infinite. None if there are
    no ratios."""
    if not ratios:
        return None
    case, worst = max(ratios.items(), key=lambda item: item[1])
    measured = "wrong results" if worst == math.inf else f"{worst:.3g}"
    return line(worst <= limit, f"{compared} <= {limit:g} in each: {measured} ({case})")


def cases(results: Iterable[Result], benchmark: str, ending: str = "") -> Iterator[Result]:
    """Returns the results of ``benchmark`` whose case ends in ``ending``."""
    return (result for result in results if result.benchmark == benchmark and result.case.endswith(ending))


def find_ratio(bar: Bar, results: Iterable[Result]) -> tuple[Result, Ratio] | None:
    """Returns the result of the bar's case and the ratio of its sides, or None if ``results`` lack the comparison."""
    for result in cases(results, bar.benchmark):
        ratio = result.ratio(bar.side, bar.other)
        if result.case == bar.case and ratio:
            return result, ratio
    return None


@dataclass(frozen=True)
class Bar:
    """The time of ``side`` over the time of ``other`` must be at most ``limit``."""

    benchmark: str
    case: str
    limit: float
    side: str = "npugraph_ex"
    other: str = "eager"

    def verdict(self, results: Iterable[Result]) -> str | None:
        """Returns a line that says met or not met, or None if ``results`` lack the comparison."""
        found = find_ratio(self, results)
        if found is None:
            return None
        ratio = found[1]
        measured = f"{ratio.value:.2f}" if ratio.accurate else "wrong results"
        return line(ratio.accurate and ratio.value <= self.limit, f"{self.describe()}: {measured}")

    def describe(self) -> str:
        return f"{self.benchmark} {self.case}: {self.side} / {self.other} <= {self.limit:g}"


@dataclass(frozen=True)
class GeometricBar:
    """The bar covers the cases of ``benchmark`` that end in ``ending``. The gain of a case is the time of the fastest
    accurate side among ``others`` over the time of ``side``. The geometric mean of the gains must be at least
    ``limit``, and at most ``most_behind`` gains may be below ``behind``. A case that lacks ``side`` or all ``others``
    does not count."""

    benchmark: str
    ending: str
    limit: float
    others: tuple[str, ...]
    side: str = "npugraph_ex"
    most_behind: int | None = None
    behind: float = 1.0

    def verdict(self, results: Iterable[Result]) -> str | None:
        gains = [
            gain
            for result in cases(results, self.benchmark, self.ending)
            for gain in (self.gain(result),)
            if gain is not None
        ]
        if not gains:
            return None
        mean = statistics.geometric_mean(gains)
        behind = sum(gain < self.behind for gain in gains)
        promise = f"{self.benchmark} {self.ending}: best of {'/'.join(self.others)} over {self.side} >= {self.limit:g}"
        if self.most_behind is not None:
            promise += f", {self.most_behind} cases below {self.behind:g} at most"
        met = mean >= self.limit and (self.most_behind is None or behind <= self.most_behind)
        return line(met, f"{promise}: {mean:.2f} ({behind} of {len(gains)} cases below {self.behind:g})")

    def gain(self, result: Result) -> float | None:
        own = result.side(self.side)
        times = [side.median for side in result.sides if side.name in self.others and result.accurate(side)]
        if own is None or not times:
            return None
        # A side with wrong results counts as 100 times slower than the others.
        return min(times) / own.median if result.accurate(own) else 0.01


@dataclass(frozen=True)
class ShareBar:
    """In every case of ``benchmark`` that ends in ``ending``, ``side`` must reach at least the share ``limit`` of the
    machine's limit (MFU, MBU or copy speed). A case with an impossible share misses the bar."""

    benchmark: str
    ending: str
    limit: float
    side: str = "npugraph_ex"

    def verdict(self, results: Iterable[Result]) -> str | None:
        shares = {
            result.case: (
                result.share(side) if result.accurate(side) and side not in result.impossible() else 0.0,
                result.limit,
            )
            for result in cases(results, self.benchmark, self.ending)
            if result.limit
            for side in (result.side(self.side),)
            if side is not None
        }
        if not shares:
            return None
        case, (least, limit) = min(shares.items(), key=lambda item: item[1][0])
        where = "" if case == self.ending else f" ({case})"
        promise = f"{self.benchmark} {self.ending}: {limit} of {self.side} >= {self.limit:g}"
        return line(least >= self.limit, f"{promise}: {least:.2f}{where}")


@dataclass(frozen=True)
class GeneratedBar:
    """In every case of ``benchmark`` that begins with none of ``but``, generated code must take at least the share
    ``limit`` of the time of our tasks."""

    benchmark: str
    limit: float
    but: tuple[str, ...] = ()

    def verdict(self, results: Iterable[Result]) -> str | None:
        shares = {
            result.case: result.generated
            for result in cases(results, self.benchmark)
            if result.generated is not None and not result.case.startswith(self.but)
        }
        if not shares:
            return None
        case, least = min(shares.items(), key=lambda item: item[1])
        but = f" but {', '.join(self.but)}" if self.but else ""
        promise = f"{self.benchmark}{but}: share of generated code >= {self.limit:g}"
        return line(least >= self.limit, f"{promise}: {least:.2f} ({case})")


@dataclass(frozen=True)
class RegretBar:
    """The ratio of a case is the time of ``side`` over the time of ``other``. The geometric mean of the ratios over the
    cases of ``benchmark`` must be at most ``mean``, and each ratio at most ``worst``."""

    benchmark: str
    mean: float
    worst: float
    side: str = "chosen"
    other: str = "best"

    def verdict(self, results: Iterable[Result]) -> str | None:
        ratios = {
            result.case: ratio.value
            for result in cases(results, self.benchmark)
            for ratio in (result.ratio(self.side, self.other),)
            if ratio is not None
        }
        if not ratios:
            return None
        mean = statistics.geometric_mean(ratios.values())
        case, worst = max(ratios.items(), key=lambda item: item[1])
        promise = (
            f"{self.benchmark}: {self.side} / {self.other} <= {self.mean:g} in the geometric mean, "
            f"<= {self.worst:g} in each"
        )
        return line(mean <= self.mean and worst <= self.worst, f"{promise}: {mean:.3f}, {worst:.2f} ({case})")


@dataclass(frozen=True)
class EachBar:
    """In every case of ``benchmark`` that ends in ``ending``, the time of ``side`` over the time of ``other`` must be
    at most ``limit``."""

    benchmark: str
    ending: str
    limit: float
    side: str = "npugraph_ex"
    other: str = "eager"

    def verdict(self, results: Iterable[Result]) -> str | None:
        ratios = {
            result.case: ratio.value if ratio.accurate else math.inf
            for result in cases(results, self.benchmark, self.ending)
            for ratio in (result.ratio(self.side, self.other),)
            if ratio is not None
        }
        return line_of_worst(ratios, self.limit, f"{self.benchmark} {self.ending}: {self.side} / {self.other}")


@dataclass(frozen=True)
class TypeBar:
    """In every case of ``benchmark`` that ends in ``dtype``, the time of ``side`` must be at most ``limit`` times
    its time in the same case of the element type ``other``. A case that lacks either does not count."""

    benchmark: str
    dtype: str
    other: str
    limit: float
    side: str = "npugraph_ex"

    def verdict(self, results: Iterable[Result]) -> str | None:
        known = {result.case: result for result in cases(results, self.benchmark) if result.side(self.side)}
        ratios = {
            case: self.ratio(result, known[other])
            for case, result in known.items()
            for other in (case.removesuffix(self.dtype) + self.other,)
            if case.endswith(self.dtype) and other in known
        }
        promise = f"{self.benchmark}: {self.side} in {self.dtype} / in {self.other}"
        return line_of_worst(ratios, self.limit, promise)

    def ratio(self, result: Result, other: Result) -> float:
        side, of_other = result.side(self.side), other.side(self.side)
        return side.median / of_other.median if result.accurate(side) and other.accurate(of_other) else math.inf


@dataclass(frozen=True)
class DifferenceBar:
    """In every case of ``benchmark`` that ends in ``ending``, the median time of ``side`` minus the median time of
    ``other`` must be at most ``seconds``."""

    benchmark: str
    ending: str
    seconds: float
    side: str = "npugraph_ex"
    other: str = "floor"

    def verdict(self, results: Iterable[Result]) -> str | None:
        differences = {
            result.case: result.side(self.side).median - result.side(self.other).median if ratio.accurate else math.inf
            for result in cases(results, self.benchmark, self.ending)
            for ratio in (result.ratio(self.side, self.other),)
            if ratio is not None
        }
        if not differences:
            return None
        case, worst = max(differences.items(), key=lambda item: item[1])
        measured = "wrong results" if worst == math.inf else f"{worst * 1e6:.2f} us"
        promise = f"{self.benchmark} {self.ending}: {self.side} - {self.other} <= {self.seconds * 1e6:g} us in each"
        return line(worst <= self.seconds, f"{promise}: {measured} ({case})")


@dataclass(frozen=True)
class FigureBar:
    """In every case of ``benchmark`` that ends in ``ending``, the figure ``figure`` must be at most ``limit``, and the
    results of our side must be right."""

    benchmark: str
    figure: str
    limit: float
    ending: str = ""

    def verdict(self, results: Iterable[Result]) -> str | None:
        figures = {
            result.case: value if self.right(result) else math.inf
            for result in cases(results, self.benchmark, self.ending)
            for value in (result.figures.get(self.figure),)
            if value is not None
        }
        if not figures:
            return None
        case, worst = max(figures.items(), key=lambda item: item[1])
        over = sum(value > self.limit for value in figures.values())
        promise = f"{' '.join(filter(None, (self.benchmark, self.ending)))}: {self.figure} <= {self.limit:g}"
        measured = "wrong results" if worst == math.inf else f"{worst:.4g}"
        return line(not over, f"{promise}: {measured} ({case}; {over} of {len(figures)} cases over)")

    @staticmethod
    def right(result: Result) -> bool:
        own = result.side("npugraph_ex")
        return own is None or result.accurate(own)
