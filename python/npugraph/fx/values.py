# SPDX-License-Identifier: Apache-2.0
"""The fake tensors of nodes."""

from __future__ import annotations

from typing import Any

from torch import fx


def evaluate(node: fx.Node) -> Any:
    """What a call gives for the values of its arguments."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    return node.target(*args, **kwargs)
