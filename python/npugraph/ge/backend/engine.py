# SPDX-License-Identifier: Apache-2.0
"""The graph engine of this process, and its options. Options of the process are those of the first graph."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from npugraph.log import logger

_lock = threading.Lock()
_options: dict[str, str] | None = None


def initialize_graph_engine(options: Mapping[str, str]) -> None:
    """Starts the engine with these options. A second call with the same ones does nothing. Raises ``ValueError`` for
    other ones, because they hold as long as the process lives."""
    global _options
    with _lock:
        if _options is None:
            logger.info("Initializing GE with options:\n%s", "\n".join(f"    {n}: {v}" for n, v in options.items()))
            _options = dict(options)
            return
        changed = {name for name in options.keys() | _options.keys() if options.get(name) != _options.get(name)}
        if changed:
            told = ", ".join(f"{n}={options.get(n)!r} (was {_options.get(n)!r})" for n in sorted(changed))
            raise ValueError(f"options of the graph engine hold for the process and cannot change: {told}")
