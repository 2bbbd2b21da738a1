# SPDX-License-Identifier: Apache-2.0
"""The module ``torchair.core._concrete_graph``, under the name that it had before."""

from torchair.core._concrete_graph import *  # noqa: F403
from torchair.core._concrete_graph import __all__  # noqa: F401
