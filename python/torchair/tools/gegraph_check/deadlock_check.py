# SPDX-License-Identifier: Apache-2.0
"""The command ``python -m torchair.tools.gegraph_check.deadlock_check TRACE``."""

import sys

from npugraph.deadlock.command import deadlock_check as main

if __name__ == "__main__":
    sys.exit(main())
