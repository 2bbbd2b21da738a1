# SPDX-License-Identifier: Apache-2.0
"""Writes debug output about one graph while it is compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import fx

from npugraph.debug.code_log import code_log
from npugraph.debug.folder import GraphFolder, unharmed
from npugraph.debug.output_code import output_code
from npugraph.debug.pass_diff import nodes_of, table
from npugraph.debug.python_source import Constants, source_of
from npugraph.fx.compile_observer import CompileObserver
from npugraph.log import logger


class Observer(CompileObserver):
    """Writes the files of one graph, and the logs that were asked for."""

    def __init__(self, name: str, folder: GraphFolder | None) -> None:
        self._name = name
        self._folder = folder
        self._constants = Constants(None) if folder is None else folder.constants
        self._before: dict[str, str] = {}
        self._inputs: list[Any] = []

    @property
    def runs_all_passes(self) -> bool:  # type: ignore[override]
        return self._folder is not None or logger.is_asked_for(logging.DEBUG)

    def begin(self, gm: fx.GraphModule) -> None:
        self._inputs = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
        self._before = nodes_of(gm.graph)
        unharmed(self._write, None, gm)

    def after(self, pass_name: str, gm: fx.GraphModule) -> None:
        unharmed(self._step, pass_name, gm)

    def stage(self, name: str, suffix: str, text: Callable[[], str]) -> None:
        if self._folder is not None:
            logger.write_to(self._folder.log)  # another backend may have compiled since the FX passes
            unharmed(self._write_stage, self._folder, name, suffix, text)

    def compiled(self, artifact: Any, gm: fx.GraphModule, sources: Sequence[str], has_python: bool) -> None:
        logger.phases(self._name, artifact.phases)
        last = gm
        if self.runs_all_passes:
            last = unharmed(self._follow_graph_passes, artifact) or gm
        unharmed(self._write_code, gm if has_python else last, artifact, sources)

    def watch(self, run: Any, artifact: Any) -> Any:
        if self._folder is None:
            return run
        from npugraph.debug.captures import written

        return written(run, artifact, self._folder)

    def _step(self, pass_name: str, gm: fx.GraphModule, text: str | None = None) -> None:
        after = nodes_of(gm.graph)
        logger.debug("%s: %s\n%s", self._name, pass_name, table(self._before, after) or "  other arguments")
        self._before = after
        self._write(pass_name, gm, text)

    def _write(self, pass_name: str | None, gm: fx.GraphModule | None, text: str | None = None) -> None:
        if self._folder is None:
            return
        path = self._folder.step("graph" if pass_name is None else f"graph_after_{pass_name}")
        if text is not None:
            path.with_name(path.name + ".ir").write_text(text)
        if gm is not None:
            path.with_name(path.name + ".txt").write_text(source_of(gm, self._constants))
            self._constants.save()

    def _write_stage(self, folder: GraphFolder, name: str, suffix: str, text: Callable[[], str]) -> None:
        path = folder.step(name)
        path.with_name(f"{path.name}.{suffix}").write_text(text())

    def _follow_graph_passes(self, artifact: Any) -> fx.GraphModule:
        """Writes the graph after each graph pass, and the plan. Returns the last graph."""
        for name, gm, text in artifact.changes():
            self._step(name, gm, text)
        if self._folder is not None:
            self._write("plan", None, artifact.program())
        return gm

    def _write_code(self, gm: fx.GraphModule, artifact: Any, sources: Sequence[str]) -> None:
        if self._folder is None and not code_log.isEnabledFor(logging.DEBUG):
            return
        text = output_code(gm, artifact, self._inputs, sources, self._constants)
        code_log.debug("Output code:\n%s", text)
        code_log.debug("The Program that runs:\n%s", artifact.program())
        if self._folder is not None:
            path: Path = self._folder.path / "output_code.py"
            path.write_text(text)
            self._constants.save()
            code_log.debug("Output code written to: %s", path)
