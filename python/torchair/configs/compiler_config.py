# SPDX-License-Identifier: Apache-2.0
"""The configuration, in the module from which scripts of Ascend import it."""

from npugraph.ge.config import CompilerConfig

__all__ = ["CompilerConfig"]
