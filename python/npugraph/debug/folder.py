# SPDX-License-Identifier: Apache-2.0
"""The folders and names of the files of ``TORCH_COMPILE_DEBUG=1``."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import get_debug_dir

from npugraph.debug.python_source import Constants
from npugraph.log import logger
from npugraph.ranks import rank

_numbers = {"model": itertools.count(), "compile": itertools.count()}
_graph_ids = itertools.count()


def run_folder(backend: str) -> Path:
    """The folder of a backend in this process. It lies beside the files that torch itself writes."""
    distributed = torch.distributed
    has_ranks = distributed.is_available() and distributed.is_initialized()
    return Path(get_debug_dir() + (f"-rank_{rank()}" if has_ranks else "")) / backend


class ModelFolder:
    """The folder of one call of a backend. ``kind`` is "model", or "compile" for graphs that others got from
    AOTAutograd."""

    def __init__(self, backend: str, kind: str) -> None:
        self.path = run_folder(backend) / f"{kind}__{next(_numbers[kind])}"
        self.path.mkdir(parents=True, exist_ok=True)
        self.log = self.path.with_name("debug.log")


class GraphFolder:
    """The folder of one graph. ``phase`` is "forward" or "backward"."""

    def __init__(self, model: ModelFolder, phase: str) -> None:
        self.path = model.path / phase
        self.path.mkdir(exist_ok=True)
        self.log = model.log
        self.constants = Constants(self.path)
        self._phase = phase
        self._id = next(_graph_ids)
        self._steps = itertools.count()
        self._captures = itertools.count()

    def step(self, graph: str) -> Path:
        """The path of the next step's files, without a suffix. ``graph`` says what they show, as graph_after_import."""
        return self.path / f"{next(self._steps):03}_aot_{self._phase}_{graph}"

    def capture(self, ns: int) -> Path:
        """The path of the next capture's file. ``ns`` is the time of the capture in nanoseconds."""
        number = next(self._captures)
        return self.path / f"graph_{number}_id_{self._id}_rank_{rank()}_pid_{os.getpid()}_ts_{ns}.json"


def unharmed(write: Any, *args: Any) -> Any:
    """Returns ``write(*args)``. If that fails, warns and returns None, because a graph that cannot be written can still
    run."""
    try:
        return write(*args)
    except Exception as error:
        logger.warning("cannot write what was asked for to debug a graph: %s: %s", type(error).__name__, error)
        return None
