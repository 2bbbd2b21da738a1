# SPDX-License-Identifier: Apache-2.0
"""The cores that the calling thread runs on."""

from __future__ import annotations

import os

_before: set[int] | None = None


def set_thread_affinity(core_range: list[int] | None = None) -> None:
    """Lets the calling thread run on the cores from ``core_range[0]`` to ``core_range[1]`` only; None changes nothing.

    Raises ValueError for anything but two numbers in order.
    """
    global _before
    if core_range is None:
        return
    if len(core_range) != 2 or not 0 <= core_range[0] <= core_range[1]:
        raise ValueError(f"set_thread_affinity: core_range is {core_range!r}, expected [first, last]")
    if _before is None:
        _before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(core_range[0], core_range[1] + 1))


def reset_thread_affinity() -> None:
    """Lets the calling thread run where it could before ``set_thread_affinity``."""
    global _before
    if _before is not None:
        os.sched_setaffinity(0, _before)
        _before = None
