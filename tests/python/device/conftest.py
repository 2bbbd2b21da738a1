# SPDX-License-Identifier: Apache-2.0
"""Measures what replays of operators cost, and shows it for all of them at the end of the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tests.python.device import captured_calls, npu_operators, replay_costs

TITLE = "bytes that a replay of a captured operator keeps and copies"


@pytest.fixture(autouse=True)
def replays_of_operators_cost_nothing() -> Iterator[None]:
    with replay_costs.first_calls() as calls:
        yield
    for name, (op, call) in calls.items():
        if replay_costs.is_known(name):
            continue
        try:
            captured_calls.check_captured(op, npu_operators.on("npu", call), repeats=False)
        except RuntimeError as error:
            replay_costs.REFUSED[name] = str(error).splitlines()[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        costs = {name: dataclasses.astuple(cost) for name, cost in replay_costs.COSTS.items()}
        session.config.workeroutput["replay costs"] = costs, replay_costs.REFUSED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    costs, refused = getattr(node, "workeroutput", {}).get("replay costs", ({}, {}))
    for name, numbers in costs.items():
        replay_costs.add(name, replay_costs.Cost(*numbers))
    replay_costs.REFUSED.update(refused)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if text := replay_costs.table():
        terminalreporter.section(TITLE)
        terminalreporter.write_line(text)
