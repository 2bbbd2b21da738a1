# SPDX-License-Identifier: Apache-2.0
"""What the backend and its passes tell those who look at a compile: here, nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx


class Nobody:
    """Looks at no graph."""

    runs_all_passes = False  # whether FX passes are to run also where none of them has been asked for

    def begin(self, gm: fx.GraphModule) -> None:
        """The graph before the passes."""

    def after(self, pass_name: str, gm: fx.GraphModule) -> None:
        """The graph after an FX pass that changed it."""

    def compiled(self, artifact: Any, gm: fx.GraphModule, sources: Sequence[str], has_python: bool) -> None:
        """The end: ``gm`` is what was imported, from inputs of these sources; with ``has_python``, functions of the
        program are part of it."""

    def watch(self, run: Any, artifact: Any) -> Any:
        """The function to call in the place of ``run``."""
        return run


NOBODY = Nobody()
