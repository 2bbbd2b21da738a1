# SPDX-License-Identifier: Apache-2.0
"""Files of ``debug.graph_dump``."""

from __future__ import annotations

import re
from pathlib import Path

from npugraph.ge import dumps
from npugraph.ge.config import CompilerConfig
from npugraph.ge.dumps import names
from npugraph.ge.graph import GeGraph
from npugraph.ranks import rank


def dump_if_asked(graph: GeGraph, config: CompilerConfig, stage: str) -> None:
    """Writes the graph if the configuration asks for it. ``stage`` is original or optimized: before and after the
    passes over graphs of GE. The number in the name of the file is that at the end of the graph's name."""
    kind = config.debug.graph_dump.type.value
    if kind is None:
        return
    number = re.search(r"\d*$", graph.name)
    assert number is not None
    file = names.of_graph(stage, int(number[0] or 0), rank(), kind)
    dumps.write(graph, Path(config.debug.graph_dump.path.value) / file, kind)
