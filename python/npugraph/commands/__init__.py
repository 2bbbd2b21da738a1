# SPDX-License-Identifier: Apache-2.0
"""Commands of ``python -m npugraph``: modules with ``add_arguments(parser)`` and ``run(arguments) -> exit code``."""

import argparse
import sys
from pathlib import Path


def refuse(command: str, reason: str) -> int:
    """Says why a command does not run, and returns its exit code."""
    print(f"npugraph {command}: {reason}", file=sys.stderr)
    return 2


def add_script(parser: argparse.ArgumentParser) -> None:
    """Adds a script of the user and its arguments, which end a command line."""
    parser.add_argument("script", help="a script of Python that compiles with backend npugraph_ex")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")


def is_there(arguments: argparse.Namespace) -> bool:
    """Whether there is the script of a command line. If not, says so."""
    if Path(arguments.script).is_file():
        return True
    print(f"{arguments.command}: there is no script {arguments.script}", file=sys.stderr)
    return False
