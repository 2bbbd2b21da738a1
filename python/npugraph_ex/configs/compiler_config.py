# SPDX-License-Identifier: Apache-2.0
"""The options, in the module from which scripts of Ascend import them."""

from npugraph.options import CompilerConfig

__all__ = ["CompilerConfig"]
