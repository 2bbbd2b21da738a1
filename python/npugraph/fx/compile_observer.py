# SPDX-License-Identifier: Apache-2.0
"""The observer of a compile that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx


class CompileObserver:
    """An observer that ignores every call. Other observers override its methods."""

    runs_all_passes = False  # True: all FX passes run, even if nothing else needs them

    def begin(self, gm: fx.GraphModule) -> None:
        """Called with the graph before the passes."""

    def after(self, pass_name: str, gm: fx.GraphModule) -> None:
        """Called with the graph after an FX pass that changed it."""

    def stage(self, name: str, suffix: str, text: Callable[[], str]) -> None:
        """Called with a graph that is no FX graph any more. ``name`` says which, as original_ge_graph, and ``suffix``
        is that of a file with its text."""

    def compiled(self, artifact: Any, gm: fx.GraphModule, sources: Sequence[str], has_python: bool) -> None:
        """Called at the end. ``gm`` is the graph that was imported, and ``sources`` are the sources of its inputs.
        ``has_python`` says whether parts of the graph run in Python or take Python objects as inputs."""

    def watch(self, run: Any, artifact: Any) -> Any:
        """Returns the function to call in place of ``run``."""
        return run


NO_OBSERVER = CompileObserver()
