# SPDX-License-Identifier: Apache-2.0
"""What the project promises about speed, as data. Benchmarks print each bar as met or not; tests do not time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.harness import Result


@dataclass(frozen=True)
class Bar:
    """Time of ``side`` over time of ``other`` must be at most ``limit``."""

    benchmark: str
    case: str
    limit: float
    side: str = "npugraph_ex"
    other: str = "eager"

    def verdict(self, results: Iterable[Result]) -> str | None:
        """A line that says met or not met; None when ``results`` do not hold the comparison."""
        for result in results:
            ratio = result.ratio(self.side, self.other)
            if (result.benchmark, result.case) == (self.benchmark, self.case) and ratio:
                met = ratio.accurate and ratio.value <= self.limit
                measured = f"{ratio.value:.2f}" if ratio.accurate else "wrong results"
                return f"{'met' if met else 'NOT MET':<8} {self.describe()}: {measured}"
        return None

    def describe(self) -> str:
        return f"{self.benchmark} {self.case}: {self.side} / {self.other} <= {self.limit:g}"


BARS = (
    Bar("replay_overhead", "1 task", limit=1.0, side="runtime", other="allowed"),
    Bar("replay_overhead", "1000 tasks", limit=1.0, side="runtime", other="allowed"),
    Bar("call_overhead", "decoder28", limit=0.5),
    Bar("call_overhead", "mlp64", limit=1.15),
)
