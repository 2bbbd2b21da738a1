# SPDX-License-Identifier: Apache-2.0
"""The command lines ``filter_operators``, ``align_trace`` and ``deadlock_check``. Exit codes: 0 no risk, 1 a risk, 2 a
file that cannot be judged."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from npugraph import _C
from npugraph.deadlock.align import aligned
from npugraph.deadlock.check import CHECKED, FILTERED, check
from npugraph.deadlock.operators import VECTOR_CORES, filtered
from npugraph.deadlock.trace_file import TraceError, read, write, write_json


def filter_operators(arguments: list[str] | None = None) -> int:
    """keep the collectives of a captured graph, and what orders its streams"""
    parser, parsed = _parse("filter_operators", filter_operators, FILTERED, arguments)
    return _run(parser, lambda: write(parsed.output, filtered(read(parsed.trace))) or 0)


def align_trace(arguments: list[str] | None = None) -> int:
    """shift the events of a captured graph behind what they wait for"""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--merge-gap",
            type=float,
            default=0.0,
            help="plain tasks of a stream become one where no more microseconds lie between them (default: none do)",
        )

    parser, parsed = _parse("align_trace", align_trace, "_aligned", arguments, add)
    return _run(parser, lambda: write(parsed.output, aligned(read(parsed.trace), parsed.merge_gap)) or 0)


def deadlock_check(arguments: list[str] | None = None) -> int:
    """look for tasks that may wait for each other's vector cores forever"""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--aivec-total", type=int, default=VECTOR_CORES, help="vector cores of the device (default: %(default)s)"
        )

    parser, parsed = _parse("deadlock_check", deadlock_check, CHECKED, arguments, add)
    if parsed.aivec_total < 1:
        parser.error(f"--aivec-total is at least 1, got {parsed.aivec_total}")

    def judge() -> int:
        verdict = check(read(parsed.trace), parsed.aivec_total)
        write_json(parsed.output, verdict.as_json())
        print("\n".join(verdict.lines()))
        return int(verdict.is_risk)

    return _run(parser, judge)


def _parse(
    name: str,
    command: Callable[..., int],
    suffix: str,
    arguments: list[str] | None,
    add: Callable[[argparse.ArgumentParser], None] | None = None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog=name, description=command.__doc__)
    parser.add_argument("--version", action="version", version=f"npugraph {_C.version}")
    parser.add_argument("trace", type=Path, help="a captured graph: a Chrome trace in JSON")
    parser.add_argument("-o", "--output", type=Path, help=f"the file to write (default: TRACE{suffix}.json)")
    if add is not None:
        add(parser)
    parsed = parser.parse_args(arguments)
    if parsed.output is None:
        parsed.output = parsed.trace.with_name(f"{parsed.trace.stem}{suffix}.json")
    return parser, parsed


def _run(parser: argparse.ArgumentParser, work: Callable[[], int]) -> int:
    try:
        return work()
    except TraceError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
