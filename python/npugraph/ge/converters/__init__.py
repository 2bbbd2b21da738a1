# SPDX-License-Identifier: Apache-2.0
"""Converters: how each operator of FX graphs becomes operators of Ascend IR.

``rows.py`` has those that are one call of an operator, as text, ``ascend_rows.py`` and ``ascend_writes.py`` have those
of Ascend's operators, and the other modules have functions for the rest. ``computations`` says what computes operators
without a rule, by the functions in ``part_functions``, and ``absent.py`` names what has no converter. What all give is
a function of the operands of an FX node, which adds operators to the current graph and returns results."""

from __future__ import annotations

from npugraph.ge.converters import (
    air,
    ascend,
    ascend_rows,
    ascend_writes,
    attention,
    collectives,
    creation,
    gradients,
    images,
    indexing,
    layout,
    losses,
    normalisation,
    order,
    pointwise,
    pooling,
    products,
    random,
    reductions,
    rows,
    sizes,
)
from npugraph.ge.converters.registry import Missing, MissingConverters, find, register_fx_node_ge_converter, registered
from npugraph.ge.converters.table import register_rows, register_rows_of_ascend

__all__ = ["Missing", "MissingConverters", "find", "register_fx_node_ge_converter", "registered"]

_FUNCTIONS = (
    *(air, ascend, attention, collectives, creation, gradients, images, indexing, layout, losses),
    *(normalisation, order, pointwise, pooling, products, random, reductions, sizes),
)

register_rows(rows.ROWS)
register_rows_of_ascend(ascend_rows.ROWS)
ascend_writes.register_writers()
