# SPDX-License-Identifier: Apache-2.0
"""The configuration of torchair: ``table.py`` lists its options, ``tree.py`` makes attributes of them, and
``effects.py`` says what becomes of them."""

from npugraph.ge.config.effects import (
    ge_options,
    irrelevant_options,
    npugraph_options,
    recorded_options,
    warn_of_irrelevant,
)
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
