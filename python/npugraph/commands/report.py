# SPDX-License-Identifier: Apache-2.0
"""The command line of the report. Its exit code is that of the script, or 2 if there is nothing to report."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from npugraph.commands import add_script, is_there
from npugraph.user_script import run_with_errors_shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("npugraph_report"), help="folder of the pages (default: %(default)s)"
    )
    add_script(parser)


def run(arguments: argparse.Namespace) -> int:
    from npugraph.artifact import registry

    if not is_there(arguments):
        return 2
    with registry.keep() as artifacts:
        code = run_with_errors_shown(arguments.script, arguments.arguments)
    if not artifacts:
        print(f"report: {arguments.script} compiles no graph with backend npugraph or npugraph_ex", file=sys.stderr)
    _print_breaks()
    if not artifacts:
        return code or 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts:
        path = arguments.out / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', artifact.name)}.html"
        artifact.report(str(path))
        print(path)
    return code


def _print_breaks() -> None:
    """Prints what no page shows: the code that runs in eager mode because Dynamo could not trace it."""
    from npugraph.fx.dynamo_breaks import all_described

    found = all_described()
    if found:
        print("report: eager mode runs what Dynamo did not trace:", *found, sep="\n  ", file=sys.stderr)
