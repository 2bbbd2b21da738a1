# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph check-op`` says which steps an operator of the user lacks, and checks its behaviour."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from npugraph.commands import refuse

COMMAND = "check-op"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAMESPACE::NAME", help="the operator, as torch.ops.NAMESPACE.NAME")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="what defines it: Python files, libraries of kernels (.so)"
    )
    parser.add_argument(
        "--args",
        default="",
        metavar="ARGUMENTS",
        help="a valid call as Python text, for example 'torch.randn(4, 8), torch.randn(8), scale=0.5'; by default "
        "arguments are tried that follow from the schema",
    )


def run(arguments: argparse.Namespace) -> int:
    import torch

    import npugraph
    from npugraph.operator_steps.check import check_operator

    for file in arguments.files:
        if not file.exists():
            return refuse(COMMAND, f"'{file}' does not exist")
        if file.suffix == ".py":
            sys.path.insert(0, str(file.parent))
            runpy.run_path(str(file), run_name=file.stem)
        else:
            npugraph.load_library(file)
    try:
        args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({arguments.args})", {"torch": torch})
    except Exception as error:
        return refuse(COMMAND, f"--args is a list of arguments in Python, got {arguments.args!r}: {error}")
    try:
        report = check_operator(arguments.name, *args, **kwargs)
    except ValueError as error:
        return refuse(COMMAND, str(error))
    print(report)
    return 0 if report.ok else 1
