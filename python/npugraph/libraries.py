# SPDX-License-Identifier: Apache-2.0
"""Libraries of kernels that users write in C++."""

from __future__ import annotations

import os
from pathlib import Path

from npugraph import _C


def load_library(path: str | os.PathLike[str]) -> list[str]:
    """Loads a shared library with kernels of operators, which ``NPUGRAPH_KERNEL`` of the header ``npugraph/kernel.h``
    registers. Operators that torch does not know yet are defined, and those that have no kernel for the CPU get the one
    of the library, so that they can be called in eager mode. Graphs that are compiled afterwards run the kernels as
    tasks, without the dispatcher.

    Each operator with new tensors as results also needs a Meta function (``torch.library.register_fake``), which says
    their sizes and types. Loading a library again does nothing, and a library is never unloaded.

    Returns the schemas of the operators. Raises ``ValueError`` if the file is no such library, if a kernel does not fit
    its schema, if torch knows the operator with another schema, or if another library or npugraph itself has the same
    operator."""
    return _C.load_library(os.fspath(path))


def include_path() -> str:
    """Returns the directory that a compiler needs for ``#include <npugraph/kernel.h>``."""
    return str(Path(__file__).parent / "include")


def cmake_path() -> str:
    """Returns the directory of the CMake package: ``cmake -Dnpugraph_DIR=...`` finds it there."""
    return str(Path(__file__).parent / "cmake")
