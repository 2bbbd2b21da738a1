# SPDX-License-Identifier: Apache-2.0
"""The user's source lines that nodes came from, as far as torch recorded them."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Any

from torch import fx

# Dynamo writes paths to modules as L['self']._modules['blocks']._modules['2'] or L['self'].blocks[2].
_ROOT = re.compile(r"^L\['(\w+)'\]")
_STEP = re.compile(r"\._modules\['([^']+)'\]|\['?([^'\]]+)'?\]")


def module_path(node: fx.Node) -> str:
    """The path of the innermost module that the node came from, relative to the compiled module: ``blocks.2.attn``. For
    the compiled module itself, the name of its class. Empty if torch recorded no module."""
    innermost = _innermost(node)
    return (_readable(innermost[0]) or module_class(node)) if innermost else ""


def module_class(node: fx.Node) -> str:
    """The name of the class of that module. Empty if torch recorded no module."""
    innermost = _innermost(node)
    if innermost is None:
        return ""
    kind = innermost[1]
    return kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind.__name__


def _innermost(node: fx.Node) -> tuple[str, Any] | None:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    return list(stack.values())[-1] if stack else None


def module_paths(gm: fx.GraphModule, outermost: str) -> dict[str, str]:
    """``module_path`` of each node, by the node's name. A node without a path gets ``outermost``, or is left out if
    that is empty."""
    paths = {node.name: module_path(node) or outermost for node in gm.graph.nodes}
    return {name: path for name, path in paths.items() if path}


@functools.lru_cache(maxsize=4096)
def _readable(path: str) -> str:
    # torch.compile calls a module of torch through a function that knows it as fn.
    path = _ROOT.sub(lambda root: "" if root[1] in ("self", "fn") else root[1], path)
    return _STEP.sub(lambda step: f".{step[1] or step[2]}", path).strip(".")


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')


def source_line(node: fx.Node, *, outermost: bool = False) -> str:
    """The user's line that the node came from, as ``file.py:12 in forward``: the innermost line of the recorded stack,
    or with ``outermost`` the outermost one. Dynamo records no lines of torch's own modules. A node of these, such as
    one of a compiled ``nn.Sequential``, has its module instead, as ``module 0.2, Linear``. Empty if torch recorded
    neither."""
    trace = node.meta.get("stack_trace")
    return _frame(trace, 0 if outermost else -1) if trace else _module(node)


def _module(node: fx.Node) -> str:
    path, kind = module_path(node), module_class(node)
    return f"module {path}, {kind}" if path not in ("", kind) else path


def frames_of(node: fx.Node) -> list[tuple[str, str, str]]:
    """The recorded stack of the node as (file, line, function), the outermost frame first."""
    return _FRAME.findall(node.meta.get("stack_trace") or "")


def is_users(file: str) -> bool:
    """Whether the file belongs to none of torch, torch_npu and npugraph."""
    # A module that must not be imported is None there.
    modules = (sys.modules.get(name) for name in ("npugraph", "torch", "torch_npu"))
    homes = [module.__file__ for module in modules if module is not None]
    return not any(file.startswith(os.path.dirname(home) + os.sep) for home in homes)


@functools.lru_cache(maxsize=4096)
def _frame(trace: str, index: int) -> str:
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    file, line, function = frames[index]
    return f"{file}:{line} in {function}"
