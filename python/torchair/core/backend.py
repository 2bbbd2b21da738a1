# SPDX-License-Identifier: Apache-2.0
"""The module ``torchair.core._backend``, under the name that it had before."""

from torchair.core._backend import *  # noqa: F403
from torchair.core._backend import __all__  # noqa: F401
