# SPDX-License-Identifier: Apache-2.0
"""Measures the costs of replays of operators, and shows a table of them at the end of the run. A run of all tests fails
if an operator was not measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python.device import captured_calls, npu_operators, replay_costs

HERE = Path(__file__).parent
TITLE = "bytes that a replay of a captured operator keeps and copies"


@pytest.fixture(autouse=True)
def replays_of_operators_cost_nothing() -> Iterator[None]:
    with replay_costs.first_calls() as calls:
        yield
    for name, (op, call) in calls.items():
        if not replay_costs.is_known(name):
            captured_calls.check_captured(op, npu_operators.on("npu", call), repeats=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        costs = {name: dataclasses.astuple(cost) for name, cost in replay_costs.COSTS.items()}
        session.config.workeroutput["replay costs"] = costs
    elif _runs_all(session) and replay_costs.unmeasured():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _runs_all(session: pytest.Session) -> bool:
    option = session.config.option
    paths = [Path(path).resolve() for path in session.config.args]
    is_part = option.markexpr != "not long" or option.keyword or option.seconds
    return not session.exitstatus and paths == [HERE] and not is_part


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    costs = getattr(node, "workeroutput", {}).get("replay costs", {})
    for name, numbers in costs.items():
        replay_costs.add(name, replay_costs.Cost(*numbers))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if text := replay_costs.table():
        terminalreporter.section(TITLE)
        terminalreporter.write_line(text)
