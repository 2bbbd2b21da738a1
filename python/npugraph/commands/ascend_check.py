# SPDX-License-Identifier: Apache-2.0
"""The command line of the verdict on a script. Its exit code is 0 if nothing is found, 1 if something is, and 2 if the
script cannot be judged."""

from __future__ import annotations

import argparse
import sys

from npugraph.commands import add_script, is_there
from npugraph.user_script import run_with_errors_shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_script(parser)


def run(arguments: argparse.Namespace) -> int:
    from npugraph import ascend_findings

    if not is_there(arguments):
        return 2
    with ascend_findings.collecting() as check:
        code = run_with_errors_shown(arguments.script, arguments.arguments)
    for finding in check.findings:
        print(f"{finding.place}: {finding.text}")
    if check.findings:
        return 1
    if code != 0:
        print(f"ascend-check: {arguments.script} ends with exit code {code}", file=sys.stderr)
        return 2
    return 0
