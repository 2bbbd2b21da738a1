# SPDX-License-Identifier: Apache-2.0
"""A builder for each operator of Ascend IR."""

from npugraph.ge.apis import *  # noqa: F403
from npugraph.ge.apis import __all__, __dir__, __getattr__  # noqa: F401
