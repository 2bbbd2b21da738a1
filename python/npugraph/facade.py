# SPDX-License-Identifier: Apache-2.0
"""Support for packages that offer names of other modules as their own: ``npugraph_ex`` and ``torchair``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of a package whose names are in other modules. ``homes`` maps each name to its
    module; a submodule is the home of its own name. A module is imported when a name of it is first read, because most
    of them import torch._dynamo or torch._inductor, which takes a second."""

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    return find
