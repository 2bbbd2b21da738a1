# SPDX-License-Identifier: Apache-2.0
"""What was launched in a captured graph, as a Chrome trace: a row for each stream, a microsecond for each launch."""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from typing import Any

from npugraph.deadlock.align import aligned


def traces(launches: Sequence[Any]) -> tuple[str, str]:
    """Texts of two traces: each stream by itself, from its first launch on, and one in which nothing begins before what
    it waits for has ended."""
    count: collections.Counter[tuple[int, int]] = collections.Counter()
    events = []
    for number, launch in enumerate(launches):
        row = launch.device, launch.stream
        events.append(
            {
                "name": launch.name,
                "cat": "launch",
                "ph": "X",
                "pid": launch.device,
                "tid": launch.stream,
                "ts": float(count[row]),
                "dur": 1.0,
                "args": {"task": number, "waits": launch.waits},
            }
        )
        count[row] += 1
    return _text(events), _text(aligned(events))


def _text(events: Sequence[Any]) -> str:
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, indent=1)
