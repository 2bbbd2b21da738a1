# SPDX-License-Identifier: Apache-2.0
"""Second names of modules: ``torch.npu.amp`` is the module ``torch_npu.npu.amp``, and not a copy of it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_NPU = "torch_npu.npu."
# Maps the beginning of a module's second name to the beginning of its real name.
_ALIASES = {
    "torch.npu.": _NPU,
    "torch_npu.npu.npugraph_ex": "npugraph_ex",
    "torch_npu.dynamo.npugraph_ex": "npugraph_ex",
    "torch_npu.dynamo.torchair": "torchair",
}


def install() -> None:
    """Makes ``import torch.npu.x`` find the modules below ``torch_npu.npu``, whether they are imported already or not.
    Does the same for the packages of torch.compile below ``torch_npu.npu`` and ``torch_npu.dynamo``."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_NPU):
            sys.modules["torch.npu." + name.removeprefix(_NPU)] = module
    sys.meta_path.insert(0, _Finder())


def _real_name(name: str) -> str | None:
    for alias, real in _ALIASES.items():
        rest = name.removeprefix(alias)
        if rest != name and (alias.endswith(".") or rest[:1] in ("", ".")):
            return real + rest
    return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if _real_name(fullname) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_real_name(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its real spec back. The module has run already, under its real name."""
        module.__spec__ = module.__spec__.loader_state
