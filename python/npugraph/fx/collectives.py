# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch.distributed in graphs (``_c10d_functional``): each is done when its node is.

In eager mode a collective returns before its result is written, and torch finds what is under way by the storage of
the result. Tasks have memory that is theirs only while they run, so here a node calls the collective and waits for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

_NAMESPACE = "_c10d_functional"
_WAIT = f"{_NAMESPACE}::wait_tensor"


def finish_collectives(gm: fx.GraphModule) -> fx.GraphModule:
    """Makes collectives nodes that run in Python and wait, and drops the nodes that waited. In place."""
    for node in list(gm.graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != _NAMESPACE:
            continue
        if node.target._schema.name != _WAIT:
            node.target = _Finished(node.target)
        elif node.args[0].op != "placeholder":
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    return gm


class _Finished:
    """A collective that waits for its results; named as the collective."""

    def __init__(self, collective: torch._ops.OpOverload) -> None:
        self.collective = collective
        self.__name__ = self.__qualname__ = str(collective).removesuffix(".default")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.collective(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.ops._c10d_functional.wait_tensor, result)

    def __repr__(self) -> str:
        return self.__name__
