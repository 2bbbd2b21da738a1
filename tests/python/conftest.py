# SPDX-License-Identifier: Apache-2.0
"""Shows the tables of all test processes at the end of the run, keeps their machine code off the user's disk and them
off the network, and switches off work that torch does in each compile for its own statistics."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator, Iterator
from typing import Any
from unittest import mock

import pytest
import torch

from tests.python import minutes, tables
from tests.python.selection import each_value

# The variable is read when the first code is generated. Programs that tests start inherit it.
os.environ["NPUGRAPH_CACHE"] = "0"
# What would reach for the network fails at once instead of waiting.
os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

FROM_WORKERS: list[tuple[str, str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, help="run only the files with most tests for their time, for so long")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(minutes.Minutes())


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Marks combinations of parameters that `make test` leaves out as long, where a test asks for each value alone. All
    combinations are seen here, whichever of them the command line selects."""
    made = yield
    items = made if isinstance(made, list) else []
    rows = {
        tuple(item.callspec._idlist): item
        for item in items
        if item.get_closest_marker("each_value") and not item.get_closest_marker("long")
    }
    if rows:
        kept = each_value(list(rows))
        if len(kept) == len(rows):
            raise collector.CollectError(f"{items[0].originalname} has no combination that each_value leaves out")
        for row in rows.keys() - kept:
            rows[row].add_marker(pytest.mark.long)
    return made


def pytest_collection_finish() -> None:
    """Keeps torch from writing structured traces, which take a tenth of all compile time. Torch writes them if their
    logger has a handler, and pytest adds handlers to each logger that does not propagate when the first test begins."""
    logging.getLogger("torch.__trace").propagate = True


@pytest.fixture(scope="session", autouse=True)
def compile_without_statistics() -> Iterator[None]:
    """Dynamo empties the caches of the processor to measure its guards, which takes a tenth of all compile time."""
    with (
        mock.patch("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0),
        mock.patch("torch._dynamo.utils.cumulative_time_spent_ns", minutes.COMPILES),
    ):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> None:
    """Resets and captures collect garbage. That takes long among all the objects that torch's imports make. These are
    frozen, so that the collector skips them."""
    torch._dynamo.reset()  # drops what an earlier file compiled, so that it is not frozen
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_numbers_in_each_run() -> None:
    """Seeds torch, because tolerances that hold for most random numbers do not hold for all."""
    torch.manual_seed(0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker process of pytest-xdist has no terminal. Its tables are sent to the process that has one."""
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
