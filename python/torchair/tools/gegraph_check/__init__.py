# SPDX-License-Identifier: Apache-2.0
"""Commands about deadlocks, for example ``python -m torchair.tools.gegraph_check.deadlock_check TRACE``."""
