# SPDX-License-Identifier: Apache-2.0
"""The command line of the times of a script's graphs. Its exit code is that of the script, or 2 if there is nothing to
time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npugraph import __version__
from npugraph.bench.turns import EAGER, INDUCTOR, OURS, Effort, Row, measure
from npugraph.commands import add_script, is_there
from npugraph.report.verdict import KINDS
from npugraph.user_script import run_with_errors_shown

_MOST_SHAPES = 3  # in a row of the table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument(
        "--seconds", type=_positive(float), default=2.0, help="time for each graph (default: %(default)s)"
    )
    effort.add_argument("--repeat", type=_positive(int), metavar="N", help="number of turns of each side instead")
    parser.add_argument(
        "--calls", type=_positive(int), metavar="N", help="end the script after so many calls of graphs"
    )
    parser.add_argument("--no-inductor", action="store_true", help="compare with eager mode alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    add_script(parser)


def _positive(kind: type) -> Any:
    def parse(text: str) -> Any:
        if (value := kind(text)) <= 0:
            raise ValueError
        return value

    parse.__name__ = f"positive {kind.__name__}"  # for the error of argparse
    return parse


def run(arguments: argparse.Namespace) -> int:
    from npugraph import backend
    from npugraph.artifact import registry
    from npugraph.bench.calls import EnoughCalls, Functions

    if not is_there(arguments):
        return 2
    if arguments.json is not None and not arguments.json.parent.is_dir():
        print(f"bench: there is no folder {arguments.json.parent}", file=sys.stderr)
        return 2
    with registry.keep() as artifacts:
        functions = Functions(artifacts, arguments.calls)
        backend.interposers.append(functions.compile)
        try:
            code = run_with_errors_shown(arguments.script, arguments.arguments)
        except EnoughCalls:
            code = 0
        finally:
            backend.interposers.remove(functions.compile)
    called = [function for function in functions if function.calls]
    if not called:
        what = f"{arguments.script} calls no graph that it compiled with backend npugraph or npugraph_ex"
        print(f"bench: {what}", file=sys.stderr)
        return code or 2
    effort = Effort(arguments.seconds, arguments.repeat)
    sides = [EAGER] if arguments.no_inductor else [EAGER, INDUCTOR]
    rows = []
    for function in called:
        print(f"bench: timing {function.name}", file=sys.stderr)
        rows.append(measure(function, artifacts, effort, INDUCTOR in sides))
    print(_table(rows, sides))
    for line in _problems(rows):
        print(f"bench: {line}", file=sys.stderr)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(_figures(arguments, rows), indent=2) + "\n")
    return code


def _table(rows: Sequence[Row], others: Sequence[str]) -> str:
    head = ["graph", "shapes", "calls", *(f"{side} ms" for side in (OURS, *others)), *(f"to {o}" for o in others)]
    lines = [[*head, "bound by"], *(_cells(row, others) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = {0, 1, len(widths) - 1}  # columns of text
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row, others: Sequence[str]) -> list[str]:
    function = row.function
    more = len(function.shapes) - _MOST_SHAPES
    shapes = ", ".join(function.shapes[:_MOST_SHAPES]) + (f" and {more} more" if more > 0 else "")
    calls = str(function.calls) if function.alike == function.calls else f"{function.alike} of {function.calls}"
    times = [_number(row.milliseconds.get(side), 3) for side in (OURS, *others)]
    ratios = [_number(row.ratio(other), 2) for other in others]
    return [_name(row), shapes or "-", calls, *times, *ratios, _bound(row)]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _name(row: Row) -> str:
    return row.function.name + (", with gradients" if row.has_gradients else "")


def _bound(row: Row) -> str:
    if not row.milliseconds:
        return "-"
    return f"{row.bound}, {row.share:.0%}: {KINDS[row.bound]}".replace("%", " %") if row.bound else "no Program ran"


def _problems(rows: Sequence[Row]) -> list[str]:
    """A line for each reason, with the graphs that were not timed for it."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for side, problem in row.problems.items():
            names.setdefault((side, problem), []).append(row.function.name)
    lines = []
    for (side, problem), of in names.items():
        what = "Inductor does not compile" if side == INDUCTOR else "not timed:"
        lines.append(f"{what} {', '.join(of)}: {problem}")
    return lines


def _figures(arguments: argparse.Namespace, rows: Sequence[Row]) -> dict[str, Any]:
    import torch

    return {
        "script": arguments.script,
        "npugraph": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "graphs": [
            {
                "name": row.function.name,
                "shapes": row.function.shapes,
                "calls": row.function.calls,
                "calls_alike": row.function.alike,
                "gradients": row.has_gradients,
                "milliseconds": row.milliseconds,
                "bound": row.bound,
                "bound_share": row.share,
                "problems": row.problems,
            }
            for row in rows
        ],
    }
