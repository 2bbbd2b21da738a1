# SPDX-License-Identifier: Apache-2.0
"""Kinds of attributes of operators, for ``custom_op``."""

from npugraph.ge.attr import *  # noqa: F403
from npugraph.ge.attr import __all__  # noqa: F401
