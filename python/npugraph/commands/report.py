# SPDX-License-Identifier: Apache-2.0
"""The command line of the report. Its exit code is that of the script, or 2 if there is nothing to report."""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from pathlib import Path

from npugraph.user_script import run_as_main


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("npugraph_report"), help="folder of the pages (default: %(default)s)"
    )
    parser.add_argument("script", help="a script of Python that compiles with backend npugraph_ex")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")


def run(arguments: argparse.Namespace) -> int:
    from npugraph.artifact import registry

    if not Path(arguments.script).is_file():
        print(f"report: there is no script {arguments.script}", file=sys.stderr)
        return 2
    with registry.keep() as artifacts:
        code = _run_script(arguments.script, arguments.arguments)
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


def _run_script(script: str, arguments: list[str]) -> int:
    """Runs the script as Python would, except for the text that is printed of an error. Returns its exit code."""
    argv, path = sys.argv, sys.path[0]
    try:
        return run_as_main(script, arguments)
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[0] = argv, path
