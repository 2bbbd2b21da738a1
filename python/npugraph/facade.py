# SPDX-License-Identifier: Apache-2.0
"""Packages that give names of others their own: ``npugraph_ex`` and ``torchair``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names are in other modules, ``homes``, imported when they are first asked
    for: most import torch._dynamo or torch._inductor, which costs a second. Submodules are homes of their own name."""

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    return find
