# SPDX-License-Identifier: Apache-2.0
"""Names of files of dumps."""

from __future__ import annotations

import datetime
import os


def of_graph(stage: str, graph_id: int, rank: int, kind: str, time: datetime.datetime | None = None) -> str:
    """The file for ``debug.graph_dump``. ``stage`` is original or optimized, ``graph_id`` counts graphs of the
    process."""
    stamp = (time or datetime.datetime.now()).strftime("%Y%m%d%H%M%S%f")
    return f"dynamo_{stage}_graph_{graph_id}_rank_{rank}_pid_{os.getpid()}_ts_{stamp}.{kind}"
