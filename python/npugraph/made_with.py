# SPDX-License-Identifier: Apache-2.0
"""What stored graphs depend on beside themselves: one is used only by a process of which all of this is the same."""

import platform
import struct
from pathlib import Path

import torch

from npugraph import _C


def build_id(library: Path) -> bytes:
    """The note of the linker, near the beginning of a library, that tells one build from others. Empty without it."""
    with library.open("rb") as file:
        start = file.read(4096)
    return start.partition(struct.pack("=III4s", 4, 20, 3, b"GNU\0"))[2][:20]


# npugraph._ascend counts whether it is loaded or not: Programs of npu have parts that come from its kernels.
_BUILDS = [_C.build_id(), *map(build_id, sorted(Path(_C.__file__).parent.glob("_ascend.*")))]

MADE_WITH = {
    "npugraph": _C.version,
    "build": b"".join(_BUILDS).hex(),
    "torch": torch.__version__,
    "machine": platform.machine(),
}
