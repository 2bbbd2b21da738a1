# SPDX-License-Identifier: Apache-2.0
"""The command line of the ladder. Its exit code is 0 if nothing goes wrong, 1 if something goes wrong, and 2 if the
script cannot be judged."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from npugraph.commands import add_script, is_there
from npugraph.ladder.compare import Tolerance
from npugraph.ladder.search import FOUND, CannotRun, Cause, Ladder
from npugraph.ladder.steps import Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", action="store_true", help="look at every task of one run instead, beside torch")
    parser.add_argument(
        "--rtol", type=float, help="allowed difference, relative to the largest magnitude (default: by type)"
    )
    parser.add_argument("--atol", type=float, default=0.0, help="allowed difference beside it (default: %(default)s)")
    parser.add_argument("--ignore-nan", action="store_true", help="with --step: a NaN of torch's own is right")
    parser.add_argument(
        "--out", type=Path, default=Path("npugraph_ladder"), help="folder of logs and findings (default: %(default)s)"
    )
    add_script(parser)


def run(arguments: argparse.Namespace) -> int:
    if not is_there(arguments):
        return 2
    tolerance = Tolerance(arguments.rtol, arguments.atol)
    with tempfile.TemporaryDirectory(prefix="npugraph_ladder_") as scratch:
        ladder = Ladder(arguments.script, arguments.arguments, arguments.out, Path(scratch), tolerance, _tell)
        try:
            if arguments.step:
                return _step(ladder, Step("replay"), arguments)
            return _climb(ladder, arguments)
        except CannotRun as error:
            print(f"ladder: {error}", file=sys.stderr)
            return 2


def _tell(line: str) -> None:
    print(line, flush=True)


def _climb(ladder: Ladder, arguments: argparse.Namespace) -> int:
    cause = ladder.climb()
    if cause is None:
        _tell("no step differs from eager")
        return 0
    for line in _lines(cause):
        _tell(line)
    if cause.is_code:
        _tell("looking at each task")
        _step(ladder, cause.step, arguments)
    return 1


def _lines(cause: Cause) -> list[str]:
    lines = ["", f"first step that differs   {cause.step.name}"]
    if cause.step.front == "aot_eager":
        return [*lines, "what makes the difference AOTAutograd of torch, before any of npugraph"]
    if cause.switch is not None:
        lines.append(f"what makes the difference {cause.switch}{f', rule {cause.rule}' if cause.rule else ''}")
    else:
        lines.append("what makes the difference no switch: it is there with all of them off, or in what replays")
    line = cause.rule_source or (cause.value.source if cause.value else "") or cause.difference.source
    if line:
        lines.append(f"line of the program       {line}")
    if cause.value is not None:
        lines.append(f"first value that differs  {cause.value.what}")
    return lines


def _step(ladder: Ladder, step: Step, arguments: argparse.Namespace) -> int:
    found = arguments.out / "task"
    code, summary = ladder.step_through(step, found, not arguments.ignore_nan)
    if code == FOUND:
        _tell((found / "task.txt").read_text().rstrip())
        _tell(f"operands are in {found / 'task.pt'}")
        return 1
    if code != 0:
        raise CannotRun(f"{arguments.script} ends with exit code {code}; see {arguments.out / 'step.log'}")
    if not summary:
        raise CannotRun(f"{arguments.script} runs no graph that torch.compile gave to this backend")
    _tell(f"every task gives what torch gives: {summary}")
    return 0
