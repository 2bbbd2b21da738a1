# SPDX-License-Identifier: Apache-2.0
"""The coverage table of the random programs at the end of the run."""

from __future__ import annotations

from typing import Any

from tests.python.fuzz import coverage


def pytest_terminal_summary(terminalreporter: Any) -> None:
    table = coverage.table()
    if table:
        terminalreporter.section("random programs")
        terminalreporter.write_line(table)
