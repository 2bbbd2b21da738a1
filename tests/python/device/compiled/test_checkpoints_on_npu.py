# SPDX-License-Identifier: Apache-2.0
"""Training with checkpoints on npu draws the random numbers of eager mode, and runs no task in Python."""

from __future__ import annotations

import pytest

import npugraph
from tests.python.backend.training.checkpoint_programs import PROGRAMS, check_program


@pytest.fixture(autouse=True)
def forget() -> None:
    npugraph.reset()


@pytest.mark.parametrize("name", ["attention and dropout", "permutation"])
def test_checkpoints_on_npu(name: str) -> None:
    check_program(name, "npu", sizes=(5,))


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_checkpoints_on_npu(name: str) -> None:
    check_program(name, "npu")
