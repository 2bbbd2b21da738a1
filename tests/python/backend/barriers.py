# SPDX-License-Identifier: Apache-2.0
"""An operator at which tasks wait for each other. It shows that tasks run at the same time, without a clock and however
busy the machine is."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import pytest
import torch

needs_two_processors = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="with one processor there is one worker, which runs streams in order"
)

_BARRIERS: list[threading.Barrier] = []
_GIVE_UP = 120  # seconds, after which a call that waits raises BrokenBarrierError


@torch.library.custom_op("backend_tests::meet", mutates_args=())
def meet(x: torch.Tensor) -> torch.Tensor:
    """Returns a copy of ``x``. Inside :func:`barrier_of`, it waits until enough calls have come."""
    for barrier in _BARRIERS:
        barrier.wait(_GIVE_UP)
    return x.clone()


meet.register_fake(lambda x: torch.empty_like(x))


@contextlib.contextmanager
def barrier_of(calls: int) -> Iterator[None]:
    """Lets ``calls`` calls of :func:`meet` wait for each other."""
    _BARRIERS[:] = [threading.Barrier(calls)]
    try:
        yield
    finally:
        _BARRIERS.clear()
