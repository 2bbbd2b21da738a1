# SPDX-License-Identifier: Apache-2.0
"""Commands of ``python -m npugraph``: modules with ``add_arguments(parser)`` and ``run(arguments) -> exit code``."""

import sys


def refuse(command: str, reason: str) -> int:
    """Says why a command does not run, and returns its exit code."""
    print(f"npugraph {command}: {reason}", file=sys.stderr)
    return 2
