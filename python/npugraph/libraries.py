# SPDX-License-Identifier: Apache-2.0
"""Libraries of kernels that users write in C++."""

from __future__ import annotations

import os

from npugraph import _C


def load_library(path: str | os.PathLike[str]) -> list[str]:
    """Loads a shared library with kernels of operators. Graphs that are compiled afterwards run these kernels as tasks,
    without the dispatcher. Kernels are registered with ``NPUGRAPH_KERNEL`` of the header ``npugraph/kernel.h``.

    Loading a library again does nothing, and a library is never unloaded. Returns the schemas of the operators. Raises
    ``ValueError`` if the file is no such library, if a kernel does not fit its schema, or if another library has a
    kernel for the same operator."""
    return _C.load_library(os.fspath(path))
