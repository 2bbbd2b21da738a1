# SPDX-License-Identifier: Apache-2.0
"""Chrome traces of the launches of a captured graph. Each stream has a row, and each launch takes a microsecond."""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from typing import Any

from npugraph.deadlock.align import aligned


def traces(launches: Sequence[Any]) -> tuple[str, str]:
    """Returns the texts of two traces. In the first, each stream stands by itself, from its first launch on. In the
    second, no launch begins before the launches that it waits for have ended."""
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
