# SPDX-License-Identifier: Apache-2.0
"""Runs of a graph on another stream than that on which it was loaded. They work here, and Ascend's engine refuses
them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from npugraph.log import logger


class LoadStream:
    """The current stream of ``device``, on which the graph of that name is loaded. Thread-safe."""

    def __init__(self, graph: str, device: torch.device) -> None:
        self.device = device
        self._graph = graph
        self._id = self._current()
        self._warns = threading.Semaphore()  # who acquires it warns

    def compare(self) -> None:
        """Warns if another stream is current, once."""
        current = self._current()
        if current != self._id and self._warns.acquire(blocking=False):
            logger.warning(
                "graph %s runs on stream %d of %s, and it was loaded on stream %d; Ascend's engine refuses runs on "
                "another stream than that of the load, which is the first call of a compiled function",
                *(self._graph, current, self.device, self._id),
            )

    def watching(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``run``, a function that runs the graph, with this comparison before each call."""

        def call(*args: Any) -> Any:
            self.compare()
            return run(*args)

        return call

    def _current(self) -> int:
        return torch.accelerator.current_stream(self.device.index).stream_id
