# SPDX-License-Identifier: Apache-2.0
"""Helpers of converters, in the module from which scripts of Ascend import them."""

from npugraph.ge.converters.values import dtype_promote

__all__ = ["dtype_promote"]
