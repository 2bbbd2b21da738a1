# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the model tests, and the table of the model set at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.python.models.model_measurements import allocation_table, model_table
from tests.python.tables import TABLES

TABLES["model set"] = model_table
TABLES["allocations of one decode step by operator"] = allocation_table


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """Returns the real language model. Loading it takes ten seconds."""
    from npugraph.demo import smollm2

    return smollm2.load_model()


@pytest.fixture(scope="session")
def smollm2_tokenizer() -> Any:
    from npugraph.demo import smollm2

    return smollm2.load_tokenizer()
