# SPDX-License-Identifier: Apache-2.0
"""Marks the backends of npugraph, so that changes in Dynamo act for no other backend."""

from __future__ import annotations

from typing import Any, TypeVar

from torch._dynamo.output_graph import OutputGraph

_MARK = "is_of_npugraph"  # an attribute of backends
Backend = TypeVar("Backend")


def mark(backend: Backend) -> Backend:
    setattr(backend, _MARK, True)
    return backend


def compiles(graph: OutputGraph) -> bool:
    """Whether the graph that Dynamo traces is for a marked backend."""
    backend: Any = graph.compiler_fn
    return getattr(getattr(backend, "compiler_fn", backend), _MARK, False)  # torch.compile wraps it
