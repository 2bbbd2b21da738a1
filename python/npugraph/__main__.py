# SPDX-License-Identifier: Apache-2.0
"""The tools of the package: ``python -m npugraph COMMAND``."""

from __future__ import annotations

import argparse
import importlib
import sys

from npugraph import __version__

# From each command to its module and its help text. The module has `add_arguments(parser)` and
# `run(arguments) -> exit code`.
COMMANDS = {
    "ascend-check": (
        "npugraph.commands.ascend_check",
        "run a script, and list by line what its graphs of GE mode have that Ascend refuses",
    ),
    "bench": (
        "npugraph.commands.bench",
        "run a script, and time the graphs that it compiled against eager mode and Inductor",
    ),
    "check-op": (
        "npugraph.commands.check_op",
        "say what an operator of your own lacks to work in graphs, and check its behaviour",
    ),
    "env": (
        "npugraph.commands.env",
        "print what a bug report has to say about this machine, its packages and its settings",
    ),
    "ladder": (
        "npugraph.commands.ladder",
        "find the step of the compiler, or the task, at which numbers go wrong",
    ),
    "new-op": (
        "npugraph.commands.new_op",
        "make a project for an operator of your own, which builds and passes its tests",
    ),
    "parts": (
        "npugraph.ge.export.parts_command",
        "add to a model of Ascend IR of which parts its operators of Ascend are made",
    ),
    "paths": (
        "npugraph.commands.paths",
        "print the directories of the headers and of the CMake package, to build kernels with",
    ),
    "report": (
        "npugraph.commands.report",
        "run a script, and write a page of HTML about each graph that it compiled",
    ),
    "serve": (
        "npugraph.commands.serve",
        "serve a model through vLLM's OpenAI-compatible server, on the CPU of this host",
    ),
}


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m npugraph", description=__doc__.splitlines()[0])
    _add_version(parser)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help_) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_, description=help_)
        _add_version(subparser)
        if name in given[:1]:  # the modules of other commands are not imported
            importlib.import_module(module).add_arguments(subparser)
    parsed = parser.parse_args(given)
    return importlib.import_module(COMMANDS[parsed.command][0]).run(parsed)


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action="version", version=f"npugraph {__version__}")


if __name__ == "__main__":
    sys.exit(main())
