# SPDX-License-Identifier: Apache-2.0
"""Every test starts with nothing compiled and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import npugraph


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    npugraph.reset()
    yield
    npugraph.reset()
