# SPDX-License-Identifier: Apache-2.0
"""The paths of the user's modules that nodes came from, as far as torch recorded them."""

from __future__ import annotations

import functools
import re

from torch import fx

# Dynamo writes paths to modules as L['self']._modules['blocks']._modules['2'] or L['self'].blocks[2].
_ROOT = re.compile(r"^L\['(\w+)'\]")
_STEP = re.compile(r"\._modules\['([^']+)'\]|\['?([^'\]]+)'?\]")


def module_path(node: fx.Node) -> str:
    """The path of the innermost module that the node came from, relative to the compiled module: ``blocks.2.attn``. For
    the compiled module itself, the name of its class. Empty if torch recorded no module."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    return _readable(path) or (kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind.__name__)


def module_paths(gm: fx.GraphModule, outermost: str) -> dict[str, str]:
    """``module_path`` of each node, by the node's name. A node without a path gets ``outermost``, or is left out if
    that is empty."""
    paths = {node.name: module_path(node) or outermost for node in gm.graph.nodes}
    return {name: path for name, path in paths.items() if path}


@functools.lru_cache(maxsize=4096)
def _readable(path: str) -> str:
    path = _ROOT.sub(lambda root: "" if root[1] == "self" else root[1], path)
    return _STEP.sub(lambda step: f".{step[1] or step[2]}", path).strip(".")
