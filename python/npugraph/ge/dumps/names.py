# SPDX-License-Identifier: Apache-2.0
"""Names of files of dumps, and the folders that these are in."""

from __future__ import annotations

import datetime
import os
from pathlib import Path


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
