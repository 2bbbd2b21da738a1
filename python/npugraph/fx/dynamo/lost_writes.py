# SPDX-License-Identifier: Apache-2.0
"""Writes of numbers that Dynamo loses: ``n.add_(1)`` where ``n`` has no dimensions, is of type float64 and lies on the
cpu. AOTAutograd starts Dynamo again for such a tensor, because it could be a Python float, and Dynamo then takes calls
whose results nobody uses out of the graph."""

from __future__ import annotations

import torch
from torch import fx


def lost_write(graph: fx.Graph) -> fx.Node | None:
    """The first call that writes such a number and whose result nobody uses, or None."""
    return next((node for node in graph.nodes if _writes(node) and not node.users and _is_number(node)), None)


def _writes(node: fx.Node) -> bool:
    return node.op == "call_method" and node.target.endswith("_") and not node.target.endswith("__")


def _is_number(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return False
    return value.dim() == 0 and value.dtype == torch.float64 and value.device.type == "cpu"
