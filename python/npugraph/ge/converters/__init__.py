# SPDX-License-Identifier: Apache-2.0
"""Converters: how each operator of FX graphs becomes operators of Ascend IR.

``rows.py`` has those that are one call of an operator, as text; the other modules have functions for the rest. What
both give is a function of the operands of an FX node, which adds operators to the current graph and returns results."""

from __future__ import annotations

from npugraph.ge.converters import (
    attention,
    creation,
    indexing,
    layout,
    normalisation,
    pointwise,
    products,
    reductions,
    rows,
    sizes,
)
from npugraph.ge.converters.registry import Missing, MissingConverters, find, register_fx_node_ge_converter, registered
from npugraph.ge.converters.table import register_rows

__all__ = ["Missing", "MissingConverters", "find", "register_fx_node_ge_converter", "registered"]

_FUNCTIONS = (attention, creation, indexing, layout, normalisation, pointwise, products, reductions, sizes)

register_rows(rows.ROWS)
