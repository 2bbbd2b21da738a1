# SPDX-License-Identifier: Apache-2.0
"""Graphs as text. There are three kinds:

- ``txt``: the text of the ``GraphDef``. ``google.protobuf.text_format`` reads it back.
- ``pbtxt``: the text of a ``GraphDef`` of TensorFlow, for viewers. It does not hold the graph, so it cannot be loaded.
- ``py``: a script of Python that builds the graph again."""

from __future__ import annotations

import os
from collections.abc import Callable

from npugraph.ge.dumps import pbtxt, script, text
from npugraph.ge.graph import GeGraph

KINDS: dict[str, Callable[[GeGraph], str]] = {"txt": text.dump, "pbtxt": pbtxt.dump, "py": script.dump}


def dump(graph: GeGraph, kind: str) -> str:
    """The graph as text of that kind. Raises ``ValueError`` for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"a dump of a graph is of kind {', '.join(KINDS)}, got {kind!r}")
    return KINDS[kind](graph)


def write(graph: GeGraph, path: str | os.PathLike[str], kind: str) -> None:
    """Writes the dump to the file ``path``, whose directory exists."""
    content = dump(graph, kind)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
