# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of npugraph. Every run of pytest loads it, so it imports npugraph only when a test asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def assert_graph() -> Callable[..., Any]:
    """``npugraph.testing.assert_graph``: compiles a model, runs it twice, and fails if graphs exceed a budget."""
    from npugraph import testing

    return testing.assert_graph
