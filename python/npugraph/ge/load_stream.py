# SPDX-License-Identifier: Apache-2.0
"""Runs of a graph on another stream than that on which it was loaded. They work here, and Ascend's engine refuses
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from npugraph.log import logger


class LoadStream:
    """The current stream of a device, on which the graph of that name is loaded."""

    def __init__(self, graph: str, device: torch.device) -> None:
        self._graph = graph
        self._device = device
        self._id = self._current()
        self._has_warned = False

    def compare(self) -> None:
        """Warns if another stream is current, once."""
        current = self._current()
        if current != self._id and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "graph %s runs on stream %d of %s, and it was loaded on stream %d; Ascend's engine refuses runs on "
                "another stream than that of the load, which is the first call of a compiled function",
                *(self._graph, current, self._device, self._id),
            )

    def compared(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``run``, a function that runs the graph, with this comparison before each call."""

        def call(*args: Any) -> Any:
            self.compare()
            return run(*args)

        return call

    def _current(self) -> int:
        return torch.accelerator.current_stream(self._device.index).stream_id
