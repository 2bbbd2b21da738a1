# SPDX-License-Identifier: Apache-2.0
"""Where the files of ``TORCH_COMPILE_DEBUG=1`` lie, and how they are called."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import get_debug_dir

from npugraph.debug.python_source import Constants
from npugraph.log import logger

_numbers = {"model": itertools.count(), "compile": itertools.count()}
_graph_ids = itertools.count()


def rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def run_folder() -> Path:
    """Of the process: beside it lies what torch itself writes."""
    distributed = torch.distributed
    has_ranks = distributed.is_available() and distributed.is_initialized()
    return Path(get_debug_dir() + (f"-rank_{rank()}" if has_ranks else "")) / "npugraph_ex"


class ModelFolder:
    """Of one call of the backend. ``kind`` is "model", or "compile" for graphs that others got from AOTAutograd."""

    def __init__(self, kind: str) -> None:
        self.path = run_folder() / f"{kind}__{next(_numbers[kind])}"
        self.path.mkdir(parents=True, exist_ok=True)


class GraphFolder:
    """Of one graph: ``phase`` is "forward" or "backward"."""

    def __init__(self, model: ModelFolder, phase: str) -> None:
        self.path = model.path / phase
        self.path.mkdir(exist_ok=True)
        self.constants = Constants(self.path)
        self._phase = phase
        self._id = next(_graph_ids)
        self._steps = itertools.count()
        self._captures = itertools.count()

    def step(self, pass_name: str | None) -> Path:
        """Of the next step, without a suffix."""
        after = "" if pass_name is None else f"_after_{pass_name}"
        return self.path / f"{next(self._steps):03}_aot_{self._phase}_graph{after}"

    def capture(self, ns: int) -> Path:
        """Of the next capture, at a time in nanoseconds."""
        number = next(self._captures)
        return self.path / f"graph_{number}_id_{self._id}_rank_{rank()}_pid_{os.getpid()}_ts_{ns}.json"


def unharmed(write: Any, *args: Any) -> Any:
    """What ``write`` gives; a graph that cannot be written is no reason not to run it."""
    try:
        return write(*args)
    except Exception as error:
        logger.warning("cannot write what was asked for to debug a graph: %s: %s", type(error).__name__, error)
        return None
