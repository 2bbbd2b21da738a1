# SPDX-License-Identifier: Apache-2.0
"""The options, in the module from which scripts of Ascend import them."""

from npugraph.options import CompilerConfig
from npugraph.options import set_options as _process_kwargs_options

__all__ = ["CompilerConfig", "_process_kwargs_options"]
