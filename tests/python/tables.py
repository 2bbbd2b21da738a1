# SPDX-License-Identifier: Apache-2.0
"""Tables that tests fill and that the end of the run shows."""

from __future__ import annotations

from collections.abc import Callable

# Title -> a function that returns the text. An empty text is not shown.
TABLES: dict[str, Callable[[], str]] = {}


def filled() -> list[tuple[str, str]]:
    """Returns the title and the text of each table to show."""
    texts = [(title, text()) for title, text in TABLES.items()]
    return [(title, text) for title, text in texts if text]
