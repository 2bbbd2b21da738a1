# SPDX-License-Identifier: Apache-2.0
"""Support for packages that offer names of other modules as their own: ``npugraph_ex`` and ``torchair``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


class NotHereError(RuntimeError, AttributeError):
    """A name of Ascend's packages that has nothing to act on here. The text says why."""


def lazy_names(
    package: str, homes: Mapping[str, str], absent: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of a package whose names are in other modules. ``homes`` maps each name to its
    module; a submodule is the home of its own name. A module is imported when a name of it is first read, because most
    of them import torch._dynamo or torch._inductor, which takes a second. ``absent`` maps names that raise
    ``NotHereError`` to the reasons."""

    def find(name: str) -> Any:
        if name in absent:
            raise NotHereError(f"{package}.{name} is not here: {absent[name]}")
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    return find


def submodules(package: str, *names: str) -> dict[str, str]:
    """The homes of submodules, for ``lazy_names``: ``package.name`` can then be read after ``import package`` alone."""
    return {name: f"{package}.{name}" for name in names}
