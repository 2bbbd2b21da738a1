# SPDX-License-Identifier: Apache-2.0
"""Where the time of a test run goes: the seconds of each file and the share that Dynamo takes.

`file_seconds.txt` holds the seconds of each file, which `scripts/minutes --save` writes. Workers take the longest files
first, so that none is left alone with one of them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.python.selection import cheapest

SAVED = Path(__file__).with_name("file_seconds.txt")
START = time.monotonic()
ROOT = Path(__file__).resolve().parents[2]


class Kept(defaultdict[str, float]):
    """A table that `torch._dynamo.reset` does not empty."""

    def clear(self) -> None:
        pass


COMPILES = Kept(float)  # event of Dynamo -> nanoseconds; takes the place of torch's table while tests run


class Minutes:
    """Counts the seconds of each file in the process that starts workers, and collects those of Dynamo from them."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.workers: list[dict[str, float]] = []
        self.collected = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        seconds = saved_seconds()
        longest = max(seconds.values(), default=0.0)
        files = {item: str(item.path.relative_to(ROOT)) for item in items}
        if limit := config.getoption("seconds"):
            kept = cheapest(Counter(files.values()), seconds, limit)
            config.hook.pytest_deselected(items=[item for item in items if files[item] not in kept])
            items[:] = [item for item in items if files[item] in kept]
        # A file that nobody measured comes first.
        items.sort(key=lambda item: -seconds.get(files[item], longest))

    def pytest_collection_finish(self) -> None:
        self.collected = time.monotonic() - START

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # A worker that died sends nothing.
        if seconds := getattr(node, "workeroutput", {}).get("minutes"):
            self.workers.append(seconds)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        here = {
            "collection": self.collected,
            "torch.compile": COMPILES["entire_frame_compile"] / 1e9,
            "wall": time.monotonic() - START,
        }
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["minutes"] = here
        elif place := os.environ.get("TEST_MINUTES"):
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            run = {"wall": here["wall"], "files": dict(self.files), "workers": self.workers or [here]}
            Path(place).write_text(json.dumps(run))


def saved_seconds() -> dict[str, float]:
    """Path of a test file -> the seconds that its tests took."""
    if not SAVED.exists():
        return {}
    rows = (line.split() for line in SAVED.read_text().splitlines())
    return {path: float(seconds) for seconds, path in rows}
