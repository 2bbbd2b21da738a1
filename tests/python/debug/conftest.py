# SPDX-License-Identifier: Apache-2.0
"""Every test starts with nothing compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def imports_are_no_garbage() -> None:
    """Tests collect garbage often, and torch is most of what there is to look through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
