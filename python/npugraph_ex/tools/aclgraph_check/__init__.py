# SPDX-License-Identifier: Apache-2.0
"""Command lines about deadlocks: ``python -m npugraph_ex.tools.aclgraph_check.deadlock_check TRACE``."""
