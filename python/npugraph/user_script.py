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
