# SPDX-License-Identifier: Apache-2.0
"""Command lines about deadlocks: ``python -m torchair.tools.gegraph_check.deadlock_check TRACE``."""
