# SPDX-License-Identifier: Apache-2.0
"""What tests of GE mode share."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from npugraph.ge.backend import target
from npugraph.ge.converters import registry
from npugraph.ge.fx import graph, partition


@pytest.fixture
def own_converters(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test registers ends with it."""
    monkeypatch.setattr(registry, "_converters", dict(registry._converters))


@pytest.fixture
def order_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators that sort have no converter, so that a graph is cut where it has them."""
    names = ("aten.sort.", "aten.topk.", "aten.cummax.")
    known = {name: body for name, body in registry._converters.items() if not name.startswith(names)}
    monkeypatch.setattr(registry, "_converters", known)


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


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """The graphs of torch that are converted from now on."""
    noted: list[weakref.ref[Any]] = []

    def convert(gm: Any, *args: Any, **kwargs: Any) -> Any:
        noted.append(weakref.ref(gm.graph))
        return partition.convert(gm, *args, **kwargs)

    monkeypatch.setattr(target, "convert", convert)
    return noted


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs of GE that are made from now on."""
    made: list[Any] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        result = graph.build(*args, **kwargs)
        made.append(result.graph)
        return result

    monkeypatch.setattr(target, "build", noting)
    return made
