# SPDX-License-Identifier: Apache-2.0
"""Files that show a graph of GE: those of ``debug.graph_dump``, and those of ``TORCH_COMPILE_DEBUG=1``. Their
names, and the folders that they are in."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

from npugraph.fx.compile_observer import CompileObserver
from npugraph.ge import dumps
from npugraph.ge.config import CompilerConfig
from npugraph.ge.graph import GeGraph
from npugraph.ge.normalise import normalise
from npugraph.ranks import rank


def normalise_and_show(graph: GeGraph, config: CompilerConfig, observer: CompileObserver) -> None:
    """Runs the passes over a graph, of which there is one, and shows the graph before and after it."""
    _show_stage(graph, config, observer, "original")
    normalise(graph.proto)
    _show(graph, config, observer, "graph_after_normalise")
    _show_stage(graph, config, observer, "optimized")


def _show_stage(graph: GeGraph, config: CompilerConfig, observer: CompileObserver, stage: str) -> None:
    _show(graph, config, observer, f"{stage}_ge_graph")
    kind = config.debug.graph_dump.type.value
    if kind is not None:
        _dump(graph, config, stage, kind)


def _show(graph: GeGraph, config: CompilerConfig, observer: CompileObserver, name: str) -> None:
    """Shows the graph to the observer, under that name, as text of the kind that ``debug.graph_dump`` has."""
    kind = config.debug.graph_dump.type.value or "pbtxt"
    observer.stage(name, kind, lambda: dumps.dump(graph, kind))


def _dump(graph: GeGraph, config: CompilerConfig, stage: str, kind: str) -> None:
    """The number in the name of the file is that at the end of the graph's name."""
    number = re.search(r"\d*$", graph.name)
    assert number is not None
    file = of_graph(stage, int(number[0] or 0), rank(), kind)
    dumps.write(graph, folder(config.debug.graph_dump.path.value) / file, kind)


def of_graph(stage: str, graph_id: int, rank: int, kind: str, time: datetime.datetime | None = None) -> str:
    """The file for ``debug.graph_dump``. ``stage`` is original or optimized, ``graph_id`` counts graphs of the
    process."""
    stamp = (time or datetime.datetime.now()).strftime("%Y%m%d%H%M%S%f")
    return f"dynamo_{stage}_graph_{graph_id}_rank_{rank}_pid_{os.getpid()}_ts_{stamp}.{kind}"


def folder(path: str) -> Path:
    """The folder of dumps, which it makes. Raises ``NotADirectoryError`` if something else is in its place."""
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(f"dumps are written to a directory, and {path!r} is none") from None
    return Path(path)
