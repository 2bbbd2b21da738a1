# SPDX-License-Identifier: Apache-2.0
"""Commands about deadlocks, for example ``python -m npugraph_ex.tools.aclgraph_check.deadlock_check TRACE``."""
