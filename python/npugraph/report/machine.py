# SPDX-License-Identifier: Apache-2.0
"""What the machine can do, measured in this process: what a page compares tasks with."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence

import torch

# Others use the machine, too: each piece of work is short, so that at least one of many runs undisturbed.
_SIDE = 512  # of the products
_LEAST_NS = 50_000_000  # for each kind of work
_PIECES, _PIECE = 32, 1 << 20  # of what is read: 128 MiB of numbers, more than caches hold, 4 MiB at a time


@functools.cache
def limits() -> dict[str, float]:
    """Per nanosecond, on all of torch's threads: ``bytes`` read from memory, and operations of products by element
    type, ``f32``, ``bf16`` and ``i8``. Measured once per process, in a quarter of a second."""
    with torch.no_grad():
        pieces = torch.ones(_PIECES, _PIECE)
        found = {"bytes": pieces[0].nbytes / _best([piece.sum for piece in pieces])}
        f32 = torch.randn(_SIDE, _SIDE)
        bf16 = f32.bfloat16()
        i8 = torch.randint(-9, 9, (_SIDE, _SIDE), dtype=torch.int8)
        work = 2.0 * _SIDE**3
        found["f32"] = work / _best([lambda: f32 @ f32])
        # A processor without instructions for them computes them as f32, or worse.
        found["bf16"] = max(work / _best([lambda: bf16 @ bf16]), found["f32"])
        found["i8"] = max(work / _best([lambda: torch._int_mm(i8, i8)]), found["f32"])
    return found


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
