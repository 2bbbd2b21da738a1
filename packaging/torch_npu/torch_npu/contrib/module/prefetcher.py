# SPDX-License-Identifier: Apache-2.0
"""Prefetching of batches to npu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

__all__ = ["Prefetcher"]


class Prefetcher:
    """Moves pairs of a loader to npu, one pair ahead. ``next()`` returns the pairs, and (None, None) at the end."""

    def __init__(self, loader: Iterable[Any], stream: torch.npu.Stream | None = None):
        self.loader = iter(loader)
        self.stream = stream if stream is not None else torch.npu.Stream()
        self.preload()

    def preload(self) -> None:
        """Fetches the next pair."""
        try:
            first, second = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with torch.npu.stream(self.stream):
            self.next_input = first.npu(non_blocking=True)
            self.next_target = second.npu(non_blocking=True)

    def next(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Returns the pair that was fetched, and fetches the next one."""
        torch.npu.current_stream().wait_stream(self.stream)
        found = self.next_input, self.next_target
        if self.next_input is not None:
            self.preload()
        return found
