# SPDX-License-Identifier: Apache-2.0
"""The functions of Ascend's module in C++, at its other place."""

from torchair.core._torchair import *  # noqa: F403
from torchair.core._torchair import __all__, __getattr__  # noqa: F401
