# SPDX-License-Identifier: Apache-2.0
"""Shows the tables of all test processes at the end of the run, keeps their machine code off the user's disk, and
spares compiles what torch does for its own statistics."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch

from tests.python import tables

# Read when the first code is generated; programs that tests start inherit it.
os.environ["NPUGRAPH_CACHE"] = "0"

FROM_WORKERS: list[tuple[str, str]] = []


# Folders of few tests that take long. They come first, so that no worker is left with one of them alone.
SLOW = ("models", "gguf", "fuzz", "examples", "tooling", "test_demo_on_npu.py", "test_operators.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(part in SLOW for part in item.path.parts))


def pytest_collection_finish() -> None:
    """Torch writes structured traces, a tenth of all compile time, as soon as its logger has a handler. Pytest adds
    some to each logger that does not propagate, when the first test begins."""
    logging.getLogger("torch.__trace").propagate = True


@pytest.fixture(scope="session", autouse=True)
def compile_without_statistics() -> Iterator[None]:
    """A tenth of all compile time: Dynamo empties the caches of the processor to measure its guards."""
    with mock.patch("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> None:
    """Resets and captures collect garbage, which takes long among the objects of all that torch imports."""
    torch._dynamo.reset()  # what an earlier file compiled is not to stay
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_numbers_in_each_run() -> None:
    """Tolerances that hold for most numbers do not hold for all."""
    torch.manual_seed(0)


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
