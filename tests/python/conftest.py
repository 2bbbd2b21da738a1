# SPDX-License-Identifier: Apache-2.0
"""Shows the tables of all test processes at the end of the run, and keeps their machine code off the user's disk."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.python import tables

# Read when the first code is generated; programs that tests start inherit it.
os.environ["NPUGRAPH_CACHE"] = "0"

FROM_WORKERS: list[tuple[str, str]] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker process of pytest-xdist has no terminal; its tables travel to the process that has."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tables"] = tables.filled()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # A worker that died sends nothing.
    FROM_WORKERS.extend(getattr(node, "workeroutput", {}).get("tables", []))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for title, text in [*FROM_WORKERS, *tables.filled()]:
        terminalreporter.section(title)
        terminalreporter.write_line(text)
