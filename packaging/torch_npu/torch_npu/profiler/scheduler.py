# SPDX-License-Identifier: Apache-2.0
"""Schedules of the steps that are recorded."""

from __future__ import annotations

import torch
from torch.profiler import ProfilerAction

__all__ = ["ProfilerAction", "Schedule"]


class Schedule:
    """Leaves out ``skip_first`` steps. Then waits, warms up and records, ``repeat`` times, or for ever if that is 0."""

    def __init__(
        self,
        wait: int,
        active: int,
        warmup: int = 0,
        repeat: int = 0,
        skip_first: int = 0,
        skip_first_wait: int = 0,
    ):
        self._action = torch.profiler.schedule(
            wait=wait,
            warmup=warmup,
            active=active,
            repeat=repeat,
            skip_first=skip_first,
            skip_first_wait=skip_first_wait,
        )

    def __call__(self, step: int) -> ProfilerAction:
        return self._action(step)
