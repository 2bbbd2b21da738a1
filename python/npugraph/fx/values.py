# SPDX-License-Identifier: Apache-2.0
"""The fake tensors of nodes, and what nodes come from."""

from __future__ import annotations

from typing import Any

from torch import fx


def evaluate(node: fx.Node) -> Any:
    """What a call gives for the values of its arguments."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    return node.target(*args, **kwargs)


_ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack")


def origin_of(node: fx.Node) -> dict[str, Any]:
    """The metadata of a node that is true of what is made of it, too."""
    return {key: node.meta[key] for key in _ORIGIN if key in node.meta}
