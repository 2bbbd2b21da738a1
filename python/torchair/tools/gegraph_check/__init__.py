# SPDX-License-Identifier: Apache-2.0
"""Commands about deadlocks, for example ``python -m torchair.tools.gegraph_check.deadlock_check TRACE``."""

from npugraph.facade import lazy_names, submodules

__getattr__ = lazy_names(__name__, submodules(__name__, "align_trace", "deadlock_check", "filter_operators"))
