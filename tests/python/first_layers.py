# SPDX-License-Identifier: Apache-2.0
"""Decoders with fewer layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def first_layers(model: nn.Module, count: int) -> Iterator[None]:
    """Leaves a decoder its first layers. pytest's monkeypatch would delete them at its end: a module keeps its modules
    in no attributes."""
    layers = model.model.layers
    model.model.layers = layers[:count]
    try:
        yield
    finally:
        model.model.layers = layers
