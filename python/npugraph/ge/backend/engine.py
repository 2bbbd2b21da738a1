# SPDX-License-Identifier: Apache-2.0
"""The graph engine of this process, and its options. Options of the process are those of the first graph."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from npugraph.ge.config import CompilerConfig, ge_options
from npugraph.log import logger

_lock = threading.Lock()
_options: dict[str, str] | None = None


def initialize_graph_engine(global_compile_options: Mapping[str, str] | None = None) -> None:
    """Starts the engine with these options of the process. Those that are not given have their defaults, or are what
    torch and torch_npu are set to. Raises what ``start`` raises."""
    _, defaults = ge_options(CompilerConfig())
    start({**defaults, **(global_compile_options or {})})


def start(options: Mapping[str, str]) -> None:
    """Starts the engine with these options and no other ones. A second call with the same ones does nothing. Raises
    ``ValueError`` for other ones, because they hold until ``finish``."""
    global _options
    with _lock:
        if _options is None:
            logger.info("Initializing GE with options:%s", "".join(f"\n    {n}: {v}" for n, v in options.items()))
            _options = dict(options)
            return
        changed = {name for name in options.keys() | _options.keys() if options.get(name) != _options.get(name)}
        if changed:
            told = ", ".join(f"{n}={options.get(n)!r} (was {_options.get(n)!r})" for n in sorted(changed))
            raise ValueError(f"options of the graph engine hold for the process and cannot change: {told}")


def finish() -> None:
    """Lets the next start have other options. Graphs that are compiled keep running, with the options that they
    have."""
    global _options
    with _lock:
        _options = None
