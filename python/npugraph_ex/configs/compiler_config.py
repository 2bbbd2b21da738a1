# SPDX-License-Identifier: Apache-2.0
"""Where scripts of Ascend import the options from."""

from npugraph.options import CompilerConfig

__all__ = ["CompilerConfig"]
