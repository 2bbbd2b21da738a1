# SPDX-License-Identifier: Apache-2.0
"""Chrome traces in JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class TraceError(ValueError):
    """A trace that cannot be read, judged or written."""


def read(path: Path) -> list[Event]:
    """The complete events (phase "X") of a trace, in the order of their times. Raises ``TraceError``."""
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise TraceError(f"{path} is no JSON: {error}") from None
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise TraceError(f"{path} is no Chrome trace: there is no list of objects in it, nor under traceEvents")
    complete = [event for event in events if event.get("ph", "X") == "X"]
    for event in complete:
        missing = [key for key in ("name", "tid") if key not in event]
        if missing or not isinstance(event.get("ts", 0), (int, float)):
            raise TraceError(f"{path}: an event lacks {missing[0] if missing else 'a time in ts'}: {event}")
    return sorted(complete, key=lambda event: event.get("ts", 0))


def write(path: Path, events: list[Event], **about: Any) -> None:
    """Writes a trace. Raises ``TraceError`` if the file cannot be written."""
    write_json(path, {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events})


def write_json(path: Path, content: Any) -> None:
    try:
        path.write_text(json.dumps(content, indent=1))
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror}") from None
