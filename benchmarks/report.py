# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
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
    """Returns a line for each side (median, least and most time, ratio to the baseline with its extremes, error), then
    the notes."""
    sides = [side_line(result, side) for side in result.sides]
    notes = dict(result.notes)
    if result.limit:
        notes[result.limit] = ", ".join(f"{side.name} {result.share(side):.2f}" for side in result.sides)
    if result.generated is not None:
        notes["share of generated code"] = f"{result.generated:.3f}"
    notes |= {name: f"{value:.6g}" for name, value in result.figures.items()}
    return "\n".join(sides + [f"  {name}: {value}" for name, value in notes.items()])


def errors(result: Result) -> list[str]:
    """Returns a line for each side whose figure cannot be true."""
    return [
        f"error: {result.benchmark} {result.case}: {result.limit} of {side.name} is {result.share(side):.2f}, "
        "which no machine reaches; the limit was measured too low"
        for side in result.impossible()
    ]


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
    """Returns a line for each bar that ``results`` can answer."""
    verdicts = (bar.verdict(results) for bar in BARS)
    return [verdict for verdict in verdicts if verdict]


@dataclass
class Record:
    """The results of one run, or of several runs of one commit on one machine. ``runs`` describes the runs."""

    runs: list[dict[str, Any]]
    results: list[Result] = field(default_factory=list)


def write_json(path: Path, record: Record) -> None:
    results = [as_record(result) for result in record.results]
    text = json.dumps({"runs": record.runs, "results": results, "bars": bars(record.results)}, indent=1)
    path.write_text(text + "\n")


SAME_IN_ALL_RUNS = ("commit", "processor", "threads", "packages")


def resume(path: Path, run: dict[str, Any]) -> Record:
    """Returns the record in ``path`` with ``run`` added. Raises SystemExit if the record has another value of
    SAME_IN_ALL_RUNS than ``run``, or if files differ from the commit."""
    record = json.loads(path.read_text())
    for key in SAME_IN_ALL_RUNS:
        if any(earlier[key] != run[key] for earlier in record["runs"]):
            raise SystemExit(f"{path} was measured with another {key}; write to a new file")
    if run["commit"].endswith("+"):
        raise SystemExit(f"{path} cannot be resumed: files differ from commit {run['commit']}")
    return Record([*record["runs"], run], [of_record(result) for result in record["results"]])


def of_record(record: dict[str, Any]) -> Result:
    known = {key: record[key] for key in (field.name for field in fields(Result))}
    known["sides"] = [SideResult(side["name"], side["seconds"], side["error"]) for side in record["sides"]]
    return Result(**known)


def as_record(result: Result) -> dict[str, Any]:
    record = asdict(result)
    for entry, side in zip(record["sides"], result.sides, strict=True):
        ratio = result.ratio(side.name, result.baseline)
        entry |= {"median": side.median, "ratio": asdict(ratio) if ratio else None}
        entry |= {"share": result.share(side)} if result.limit else {}
    return record
