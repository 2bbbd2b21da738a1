# SPDX-License-Identifier: Apache-2.0
"""The command ``python -m npugraph_ex.tools.aclgraph_check.filter_operators TRACE``."""

import sys

from npugraph.deadlock.command import filter_operators as main

if __name__ == "__main__":
    sys.exit(main())
