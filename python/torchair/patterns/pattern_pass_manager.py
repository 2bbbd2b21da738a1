# SPDX-License-Identifier: Apache-2.0
"""Replacement rules, in the module from which scripts of Ascend import them."""

from npugraph.fx.passes.replacements import register_replacement

__all__ = ["register_replacement"]
