# SPDX-License-Identifier: Apache-2.0
"""What tests of GE mode share."""

from __future__ import annotations

from typing import Any

import pytest

from npugraph.ge.backend import target


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs of GE that the compile driver makes from now on, before they are compiled."""
    made = []

    class Noted(target.GeConcreteGraph):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(target, "GeConcreteGraph", Noted)
    return made
