# SPDX-License-Identifier: Apache-2.0
"""Every test starts with nothing compiled and without gradients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import npugraph


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    npugraph.reset()
    with torch.no_grad():
        yield
    npugraph.reset()
