# SPDX-License-Identifier: Apache-2.0
"""Scripts of the user that a tool runs in its own process."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def run_as_main(script: str, arguments: list[str]) -> int:
    """Runs a script as ``python script arguments`` does, and returns its exit code. Raises what the script raises.
    Leaves ``sys.argv`` and ``sys.path`` as they are for the script."""
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as leave:
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return 0


def run_with_errors_shown(script: str, arguments: list[str]) -> int:
    """Runs a script as ``python script arguments`` does, shows its errors, too, and returns its exit code. Leaves
    ``sys.argv`` and ``sys.path`` as they were before."""
    argv, path = sys.argv, sys.path[0]
    try:
        return run_as_main(script, arguments)
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != script:  # a tool's own frames
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    finally:
        sys.argv, sys.path[0] = argv, path
