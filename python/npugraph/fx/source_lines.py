# SPDX-License-Identifier: Apache-2.0
"""The user's source lines that nodes came from, as far as torch recorded them."""

from __future__ import annotations

import functools
import os
import re
import sys

from torch import fx

from npugraph.fx.module_paths import module_class, module_path

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
