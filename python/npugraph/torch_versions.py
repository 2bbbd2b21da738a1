# SPDX-License-Identifier: Apache-2.0
"""Lets ``npugraph._C`` and ``npugraph._ascend`` be imported from the folder of the torch that runs.

Each minor version has a folder (``torch-2.13``), because the C++ half would crash with the libraries of another. Raises
ImportError where the torch that runs has none."""

from __future__ import annotations

import sys
from pathlib import Path

import torch


def minor(version: str) -> str:
    """The part of a version that libraries are bound to: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split(".")[:2])


def numbers(version: str) -> tuple[int, ...]:
    """The same part as numbers to compare. Unlike torch's own comparison, 2.14.0a0 is not older than 2.14."""
    return tuple(map(int, minor(version).split(".")))


def modules(package: Path, version: str) -> Path:
    """The folder in ``package`` that has the modules for this version of torch. Raises ImportError where none has."""
    folder = package / f"torch-{minor(version)}"
    if folder.is_dir():
        return folder
    built_for = sorted(other.name.removeprefix("torch-") for other in package.glob("torch-*"))
    if not built_for:
        raise ImportError(f"npugraph in {package} is not built: build it for torch {minor(version)}")
    raise ImportError(
        f"npugraph in {package} is built for torch {' and '.join(built_for)}, and this is torch {version}: "
        f"install {' or '.join(f'torch=={other}.*' for other in built_for)}, "
        f"or build npugraph for torch {minor(version)}"
    )


# First, so that nothing that lies in the package itself is found before them.
sys.modules["npugraph"].__path__.insert(0, str(modules(Path(__file__).parent, torch.__version__)))
