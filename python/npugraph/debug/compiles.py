# SPDX-License-Identifier: Apache-2.0
"""Gives the compiles of this process their observers. If nothing is to be observed, the code for it is not imported."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from torch import fx

from npugraph.debug.code_log import code_log
from npugraph.fx.compile_observer import NO_OBSERVER, CompileObserver
from npugraph.log import EVENT, logger

if TYPE_CHECKING:
    from npugraph.debug.folder import ModelFolder


def is_wanted() -> bool:
    """Whether the process wants debug files at this moment."""
    return os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1"


class Compiles:
    """One call of a backend. It gives each of its graphs an observer."""

    def __init__(self, backend: str, kind: str, gm: fx.GraphModule) -> None:
        self._folder: ModelFolder | None = None
        if not is_wanted():
            logger.write_to(None)
            return
        from npugraph.debug.folder import ModelFolder, unharmed

        self._folder = unharmed(ModelFolder, backend, kind)
        if self._folder is not None:
            logger.write_to(self._folder.log)
        if self._folder is not None and kind == "model":
            unharmed(self._write_graph, gm)

    def observer(self, name: str, phase: str) -> CompileObserver:
        """The observer of the graph ``name``. ``phase`` is "forward" or "backward"."""
        logs = logger.is_asked_for(EVENT) or code_log.isEnabledFor(logging.DEBUG)
        if self._folder is None and not logs:
            return NO_OBSERVER
        from npugraph.debug.folder import GraphFolder, unharmed
        from npugraph.debug.observer import Observer

        return Observer(name, None if self._folder is None else unharmed(GraphFolder, self._folder, phase))

    def _write_graph(self, gm: fx.GraphModule) -> None:
        from npugraph.debug.python_source import Constants, source_of

        constants = Constants(self._folder.path)
        (self._folder.path / "dynamo_out_graph.txt").write_text(source_of(gm, constants))
        constants.save()
