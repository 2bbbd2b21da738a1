# SPDX-License-Identifier: Apache-2.0
"""The memory of this process, as the system reports it."""

from __future__ import annotations

import ctypes
import gc
import resource
from pathlib import Path

PROCESS = Path("/proc/self")
RESET_PEAK = "5"  # written to clear_refs
KIB = 1024


def resident() -> int:
    """Returns the resident bytes, after giving free memory back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return status("VmRSS")


def peak() -> int:
    """Returns the most resident bytes since :func:`reset_peak`."""
    return status("VmHWM")


def reset_peak() -> None:
    (PROCESS / "clear_refs").write_text(RESET_PEAK)


def status(field: str) -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith(f"{field}:"))


def page_faults() -> int:
    """Returns the page faults of this process that needed no disk. Most of them are first uses of pages."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
