# SPDX-License-Identifier: Apache-2.0
"""Where scripts of Ascend import rules of replacement from."""

from npugraph.fx.passes.replacements import register_replacement

__all__ = ["register_replacement"]
