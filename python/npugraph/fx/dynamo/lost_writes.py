# SPDX-License-Identifier: Apache-2.0
"""Writes of numbers that Dynamo loses: ``n.add_(1)`` where ``n`` has no dimensions, is of type float64 and lies on the
cpu. AOTAutograd starts Dynamo again for such a tensor, because it could be a Python float, and Dynamo then takes calls
whose results nobody uses out of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def lost_write(graph: fx.Graph) -> fx.Node | None:
    """The first call that writes such a number and whose result nobody uses, or None."""
    return next((node for node in graph.nodes if not node.users and _is_written_number(node)), None)


def _is_written_number(node: fx.Node) -> bool:
    """Whether the result of a call is the number that it was given, as ``add_``, ``+=`` and ``out=`` return it."""
    value = _value(node)
    if not isinstance(value, torch.Tensor) or all(_value(argument) is not value for argument in node.all_input_nodes):
        return False
    return value.dim() == 0 and value.dtype == torch.float64 and value.device.type == "cpu"


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value")
