# SPDX-License-Identifier: Apache-2.0
"""The configuration of torchair: ``table.py`` lists its options, ``tree.py`` makes attributes of them, and the other
modules say what becomes of them."""

from npugraph.ge.config.backend_options import npugraph_options
from npugraph.ge.config.engine_options import ge_options
from npugraph.ge.config.relevance import irrelevant_options, recorded_options, warn_of_irrelevant
from npugraph.ge.config.table import ROWS
from npugraph.ge.config.tree import CompilerConfig

__all__ = [
    "ROWS",
    "CompilerConfig",
    "ge_options",
    "irrelevant_options",
    "npugraph_options",
    "recorded_options",
    "warn_of_irrelevant",
]
