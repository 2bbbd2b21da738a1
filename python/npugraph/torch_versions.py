# SPDX-License-Identifier: Apache-2.0
"""Which torch this build of npugraph is for. Importing it raises ImportError where torch is another one: the C++ half
would crash with its libraries."""

from __future__ import annotations

from pathlib import Path

import torch


def minor(version: str) -> str:
    """The part of a version that libraries are bound to: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split(".")[:2])


_FOLDER = Path(__file__).parent
# Written by the build (cmake/npugraph_torch.cmake).
BUILT_FOR = minor((_FOLDER / "_torch_version").read_text())

if minor(torch.__version__) != BUILT_FOR:
    raise ImportError(
        f"npugraph in {_FOLDER} is built for torch {BUILT_FOR}, and this is torch {torch.__version__}: "
        f"install torch=={BUILT_FOR}.*, or build npugraph for torch {minor(torch.__version__)}"
    )
