# SPDX-License-Identifier: Apache-2.0
"""The text of a ``GraphDef``, and what the other dumps take from it."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from npugraph.ge.graph import GeGraph


def dump(graph: GeGraph) -> str:
    return text_format.MessageToString(graph.proto, as_utf8=True)


def on_one_line(message: Any) -> str:
    """A message as text that ``text_format`` reads back."""
    return text_format.MessageToString(message, as_one_line=True)
