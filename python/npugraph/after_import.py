# SPDX-License-Identifier: Apache-2.0
"""Calls a function once a module has been imported. The process may never import it.

after_import("torch._dynamo", install)
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Calls ``then(module)`` at once if the module is imported already, else as soon as it has been imported."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, then))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module by means of the other finders. It stays installed until the module has run, because a caller
    that asks for a spec may not import the module."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.then = then
        self._thread = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name or getattr(self._thread, "asks_others", False):
            return None
        self._thread.asks_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._thread.asks_others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def imported(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            self.then(module)
            sys.meta_path.remove(self)


class _Loader(importlib.abc.Loader):
    """Loads as ``loader`` does. ``loader`` itself is not changed, because others load modules with it, too."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module, which sees the loader that it would have without this one."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.imported(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
