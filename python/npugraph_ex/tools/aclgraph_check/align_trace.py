# SPDX-License-Identifier: Apache-2.0
"""The command ``python -m npugraph_ex.tools.aclgraph_check.align_trace TRACE``."""

import sys

from npugraph.deadlock.command import align_trace as main

if __name__ == "__main__":
    sys.exit(main())
