# SPDX-License-Identifier: Apache-2.0
"""What the machine can do, measured in this process: what a page compares tasks with."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

# Others use the machine, too: each piece of work is short, so that at least one of many runs undisturbed.
_SIDE = 512  # of the products
_LEAST_NS = 50_000_000  # for each kind of work
_PIECE = 1 << 20  # numbers that are read at a time, of more than caches hold
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@functools.cache
def limits() -> dict[str, float]:
    """Per nanosecond, on all of torch's threads: ``bytes`` read from memory, and operations of products by element
    type, ``f32``, ``bf16`` and ``i8``. Measured once per process, in a quarter of a second. ``caches``: the bytes of
    the largest cache."""
    with torch.no_grad():
        caches = _cache_bytes()
        pieces = torch.ones(max(128 << 20, 4 * caches) // (4 * _PIECE), _PIECE)
        found = {"bytes": pieces[0].nbytes / _best([piece.sum for piece in pieces]), "caches": float(caches)}
        f32 = torch.randn(_SIDE, _SIDE)
        bf16 = f32.bfloat16()
        i8 = torch.randint(-9, 9, (_SIDE, _SIDE), dtype=torch.int8)
        work = 2.0 * _SIDE**3
        found["f32"] = work / _best([lambda: f32 @ f32])
        # A processor without instructions for them computes them as f32, or worse.
        found["bf16"] = max(work / _best([lambda: bf16 @ bf16]), found["f32"])
        found["i8"] = max(work / _best([lambda: torch._int_mm(i8, i8)]), found["f32"])
    return found


def _cache_bytes() -> int:
    """Of the largest cache that the first processor uses; as many as small machines have where the system says none."""
    sizes = [file.read_text().strip() for file in _CACHES.glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=8 << 20)


def _best(pieces: Sequence[Callable[[], object]]) -> float:
    """Nanoseconds of the fastest of equal pieces of work, which take turns."""
    times: list[int] = []
    turns = itertools.cycle(pieces)
    while sum(times) < _LEAST_NS or len(times) < len(pieces):
        work = next(turns)
        begin = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begin)
    return min(times)
