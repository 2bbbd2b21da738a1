# SPDX-License-Identifier: Apache-2.0
"""Pairs of values, in the module from which scripts of Ascend import them."""

from npugraph.value_packs import ValuePack
from npugraph.value_packs import is_symlist as _is_symlist

__all__ = ["ValuePack", "_is_symlist"]
