# SPDX-License-Identifier: Apache-2.0
"""Names graphs after the module or function that the user compiled."""

from __future__ import annotations

import inspect
import re
from types import CodeType

import torch
from torch import fx
from torch._dynamo.symbolic_convert import InstructionTranslator

from npugraph.fx.source_lines import is_users, source_line

# Dynamo's name for the rest of a function after a graph break.
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")


def name_of(gm: fx.GraphModule) -> str:
    """The class of the module whose method Dynamo is compiling, or the name of the user's function that it is
    compiling. If Dynamo is compiling torch's own code around a module of torch.nn, or nothing is being traced, the
    nodes decide: the class of the outermost module that they come from, else their outermost function, else "graph"."""
    root = _root()
    if traced := class_of_traced_module():
        return traced
    function = _outermost_function(gm)
    if function is not None and root is not None and is_users(root.f_code.co_filename):
        return function
    return _outermost_module(gm) or function or "graph"


def class_of_traced_module() -> str:
    """The class of the module whose method Dynamo is compiling. Empty if it compiles no method of a module."""
    root = _root()
    module = _owner(root) if root is not None else None
    return type(module).__name__ if module is not None else ""


def _root() -> InstructionTranslator | None:
    try:
        return InstructionTranslator.current_tx().output.root_tx
    except AttributeError:  # nothing is being traced
        return None


def _owner(root: InstructionTranslator) -> torch.nn.Module | None:
    """The module whose method is traced. The rest of a method after a graph break counts as that method."""
    for parameter in root.f_code.co_varnames[: root.f_code.co_argcount]:
        this = root.f_locals.get(parameter)
        if isinstance(this, torch.nn.Module) and (parameter == "self" or _is_of(this, root.f_code, parameter)):
            return this
    return None


def _is_of(module: torch.nn.Module, code: CodeType, parameter: str) -> bool:
    """Whether ``code`` belongs to a method of ``module`` that calls its first parameter ``parameter``."""
    method = getattr(module, _RESUMED.sub(r"\1", code.co_name), None)
    of_method = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
    return of_method is not None and of_method.co_varnames[:1] == (parameter,)


def _outermost_function(gm: fx.GraphModule) -> str | None:
    lines = (source_line(node, outermost=True) for node in gm.graph.nodes)
    names = (_RESUMED.sub(r"\1", line.rsplit(" in ", 1)[-1]) for line in lines if line)
    return next(names, None)


def _outermost_module(gm: fx.GraphModule) -> str | None:
    for node in gm.graph.nodes:
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        if modules:
            kind = modules[0][1]
            return kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind.__name__
    return None
