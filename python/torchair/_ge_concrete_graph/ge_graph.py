# SPDX-License-Identifier: Apache-2.0
"""Graphs and tensors, in the module from which scripts of Ascend import them."""

from torchair.ge._ge_graph import *  # noqa: F403
from torchair.ge._ge_graph import __all__  # noqa: F401
