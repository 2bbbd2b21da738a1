# SPDX-License-Identifier: Apache-2.0
"""The limits of the machine, measured in this process. A page compares tasks with them."""

from __future__ import annotations

import bisect
import functools
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

# Other processes use the machine, too. Each piece of work is short, so that at least one of many runs undisturbed.
_SIDE = 512  # rows and columns of the factors of products
_LEAST_NS = 25_000_000  # the time of one measurement of each kind of work
_AGREE = 1.1  # two measurements agree if the slower one is at most this many times as long
_MOST = 20  # measurements of work on a machine that never comes to rest
_PIECE = 1 << 20  # float32 numbers that are read at a time; together the pieces exceed the caches
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@functools.cache
def limits() -> dict[str, float]:
    """The limits of all of torch's threads, measured once per process, in a quarter of a second if nothing else uses
    the machine. Per nanosecond: ``bytes`` read from memory, and operations of products by element type, ``f32``,
    ``bf16`` and ``i8``. ``caches`` is
    the size of the largest cache in bytes."""
    with torch.no_grad():
        caches = _cache_bytes()
        pieces = torch.ones(max(128 << 20, 4 * caches) // (4 * _PIECE), _PIECE)
        found = {"bytes": pieces[0].nbytes / _time([piece.sum for piece in pieces]), "caches": float(caches)}
        f32 = torch.randn(_SIDE, _SIDE)
        bf16 = f32.bfloat16()
        i8 = torch.randint(-9, 9, (_SIDE, _SIDE), dtype=torch.int8)
        work = 2.0 * _SIDE**3
        found["f32"] = work / _time([lambda: f32 @ f32])
        # A processor without instructions for bf16 and i8 computes them as f32, or slower.
        found["bf16"] = max(work / _time([lambda: bf16 @ bf16]), found["f32"])
        found["i8"] = max(work / _time([lambda: torch._int_mm(i8, i8)]), found["f32"])
    return found


def _cache_bytes() -> int:
    """The size of the largest cache that the first processor uses. If the system does not tell, that of a small
    machine."""
    sizes = [file.read_text().strip() for file in _CACHES.glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=8 << 20)


def _time(pieces: Sequence[Callable[[], object]]) -> float:
    return _agreed(lambda: _best(pieces))


def _best(pieces: Sequence[Callable[[], object]]) -> float:
    """Runs equal pieces of work in turn. Returns the nanoseconds of the fastest run."""
    times: list[int] = []
    turns = itertools.cycle(pieces)
    while sum(times) < _LEAST_NS or len(times) < len(pieces):
        work = next(turns)
        begin = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begin)
    return min(times)


def _agreed(measure: Callable[[], float]) -> float:
    """Measures until the two shortest times agree, and returns the shortest. While others use the machine, one
    measurement may find a small part of what it can do."""
    times = sorted((measure(), measure()))
    while times[1] > _AGREE * times[0] and len(times) < _MOST:
        bisect.insort(times, measure())
    return times[0]
