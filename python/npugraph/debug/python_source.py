# SPDX-License-Identifier: Apache-2.0
"""A GraphModule -> the text of a Python module that runs by itself."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.graph import _custom_builtins

from npugraph.fx.decompose.collectives import is_collective

_INDENT = "    "
_OUR_OPERATORS = ("npugraph", "npugraph_ex")

_ATTACH = """
def _attach(module, path, value):
    *holders, name = path.split(".")
    for holder in holders:
        if not hasattr(module, holder):
            setattr(module, holder, torch.nn.Module())
        module = getattr(module, holder)
    setattr(module, name, value)
"""


class Constants:
    """The tensors that graphs hold. Each is stored once, in a file beside the sources. Without a folder, sources only
    give their layout."""

    FILE = "constants.pt"

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._tensors: dict[str, torch.Tensor] = {}
        self._names: dict[Any, str] = {}
        self._saved = 0

    def expression(self, tensor: torch.Tensor) -> str:
        """A Python expression of the tensor."""
        if self.folder is None:
            return f"torch.empty_strided({layout(tensor)}, dtype={tensor.dtype}, device={str(tensor.device)!r})"
        key = (tensor.data_ptr(), tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride())
        if key not in self._names:
            self._names[key] = f"constant_{len(self._names)}"
            self._tensors[self._names[key]] = tensor.detach()
        return f"_constants[{self._names[key]!r}]"

    def reading(self) -> str:
        """Python statements that read the file."""
        if self.folder is None:
            return ""
        return (
            "import pathlib\n"
            f'_file = pathlib.Path(globals().get("__file__", {str(self.folder / "_")!r})).with_name({self.FILE!r})\n'
            "_constants = torch.load(_file, weights_only=True)\n"
        )

    def save(self) -> None:
        """Writes the file if there are more tensors than at the last time."""
        if self.folder is not None and len(self._tensors) > self._saved:
            torch.save(self._tensors, self.folder / self.FILE)
            self._saved = len(self._tensors)


def layout(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)}, {tensor.stride()}"


def source_of(gm: fx.GraphModule, constants: Constants) -> str:
    """The text of a module with the class ``GraphModule``, whose objects compute what ``gm`` does. Functions of the
    program that a module cannot import by name raise ``NotImplementedError`` there."""
    writer = _Writer(constants)
    writer.add(gm, "GraphModule")
    return writer.text()


class _Writer:
    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.imports: dict[str, str] = {"torch": "import torch"}
        self.classes: list[str] = []
        self.holds_tensors = False
        self.holds = False

    def text(self) -> str:
        parts = ["\n".join(sorted(set(self.imports.values()))) + "\n"]
        if self.holds_tensors:
            parts.append(self.constants.reading())
        if self.holds:
            parts.append(_ATTACH)
        return "\n".join([*parts, *self.classes])

    def add(self, gm: fx.GraphModule, name: str) -> None:
        code = gm.graph.python_code("self", verbose=True, include_stride=True, include_device=True)
        for global_name, value in code.globals.items():
            self.imports[global_name] = _import_line(global_name, value)
        if any(is_collective(node.target) for node in gm.graph.nodes):
            self.imports["npugraph.collectives"] = "import npugraph.collectives"
        if any(getattr(node.target, "namespace", "") in _OUR_OPERATORS for node in gm.graph.nodes):
            self.imports["npugraph"] = "import npugraph"
        attached = [self._attach(gm, target, name) for target in _attributes(gm.graph)]
        init = [f"{_INDENT}def __init__(self):", f"{_INDENT * 2}super().__init__()", *attached]
        body = "\n".join(f"{_INDENT}{line}" if line.strip() else "" for line in code.src.strip().splitlines())
        self.classes.append(f"\nclass {name}(torch.nn.Module):\n" + "\n".join(init) + f"\n\n{body}\n")

    def _attach(self, gm: fx.GraphModule, target: str, name: str) -> str:
        value: Any = gm
        for part in target.split("."):
            value = getattr(value, part)
        self.holds = True
        return f"{_INDENT * 2}_attach(self, {target!r}, {self._value(value, target, name)})"

    def _value(self, value: Any, target: str, name: str) -> str:
        if isinstance(value, torch.Tensor):
            self.holds_tensors = True
            return self.constants.expression(value)
        if isinstance(value, fx.GraphModule):
            inner = f"{name}_{target.replace('.', '_')}"
            self.add(value, inner)
            return f"{inner}()"
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        unknown = f"_{target.replace('.', '_')}_of_{name}"
        self.imports[unknown] = _unknown(unknown, value)
        return unknown


def _attributes(graph: fx.Graph) -> list[str]:
    return list(dict.fromkeys(node.target for node in graph.nodes if node.op in ("get_attr", "call_module")))


def _import_line(name: str, value: Any) -> str:
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {name}"
    home, path = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if home and path.isidentifier() and getattr(sys.modules.get(home), path, None) is value:
        return f"from {home} import {path} as {name}"
    return _unknown(name, value)


def _unknown(name: str, value: Any) -> str:
    text = f"{name} is {type(value).__name__} of the program, which no text can hold"
    return f"\n\ndef {name}(*args, **kwargs):\n{_INDENT}raise NotImplementedError({text!r})\n"
