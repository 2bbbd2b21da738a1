# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.bars import BARS
from benchmarks.harness import Result, SideResult

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def duration(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in UNITS if seconds >= s), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


HEADER = f"{'case':<24} {'side':<18} {'median':>9} {'min':>9} {'max':>9}   {'ratio (min-max)':<22} error"


def lines(result: Result) -> str:
    """A line for each side: median, least and most time, ratio to the baseline with its extremes, error."""
    sides = [side_line(result, side) for side in result.sides]
    notes = dict(result.notes)
    if result.limit:
        notes[result.limit] = ", ".join(f"{side.name} {result.share(side):.2f}" for side in result.sides)
    return "\n".join(sides + [f"  {name}: {value}" for name, value in notes.items()])


def side_line(result: Result, side: SideResult) -> str:
    times = (side.median, min(side.seconds), max(side.seconds))
    columns = " ".join(f"{duration(value):>9}" for value in times)
    return f"{result.case:<24} {side.name:<18} {columns}   {ratio_text(result, side):<22} {side.error:.1e}"


def ratio_text(result: Result, side: SideResult) -> str:
    ratio = result.ratio(side.name, result.baseline)
    if ratio is None or side.name == result.baseline:
        return "-"
    if not ratio.accurate:
        return "wrong results"
    return f"{ratio.value:.3g} ({ratio.low:.3g}-{ratio.high:.3g})"


def bars(results: Sequence[Result]) -> list[str]:
    """A line for each bar that ``results`` can answer."""
    verdicts = (bar.verdict(results) for bar in BARS)
    return [verdict for verdict in verdicts if verdict]


def write_json(path: Path, machine: dict[str, Any], results: Sequence[Result]) -> None:
    record = {"machine": machine, "results": [as_record(result) for result in results], "bars": bars(results)}
    path.write_text(json.dumps(record, indent=1) + "\n")


def as_record(result: Result) -> dict[str, Any]:
    record = asdict(result)
    for entry, side in zip(record["sides"], result.sides, strict=True):
        ratio = result.ratio(side.name, result.baseline)
        entry |= {"median": side.median, "ratio": asdict(ratio) if ratio else None}
        entry |= {"share": result.share(side)} if result.limit else {}
    return record
