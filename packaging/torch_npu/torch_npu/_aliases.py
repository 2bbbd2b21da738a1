# SPDX-License-Identifier: Apache-2.0
"""``torch.npu.amp`` and the other modules below ``torch.npu`` are those below ``torch_npu.npu``, and no second ones."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_ALIAS, _REAL = "torch.npu.", "torch_npu.npu."


def install() -> None:
    """Makes ``import torch.npu.x`` find them, those that are imported and those that are not yet."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_REAL):
            sys.modules[_ALIAS + name.removeprefix(_REAL)] = module
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname.startswith(_ALIAS) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_REAL + spec.name.removeprefix(_ALIAS))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran under its real name, whose spec it gets back."""
        module.__spec__ = module.__spec__.loader_state
