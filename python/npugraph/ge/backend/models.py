# SPDX-License-Identifier: Apache-2.0
"""Graphs of GE and the model of the user that they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npugraph.artifact import Artifact
from npugraph.driver.calls import watch_model
from npugraph.driver.entry import OperatorGraph, Route


def belongs_to_model(graph: OperatorGraph, kinds: Sequence[str]) -> Callable[[Artifact, Any], None]:
    """Returns a function that ties an artifact to the model: it sleeps when the model is gone. ``kinds`` are those of
    the inputs of the C++ function."""
    entry, is_backward = graph.entry, graph.route is Route.BACKWARD

    def tie(artifact: Artifact, function: Any) -> None:
        entry.owners.add(artifact)
        if not is_backward:
            watch_model(function, entry, kinds)

    return tie
