# SPDX-License-Identifier: Apache-2.0
"""The graph engine of this process, and its options. Options of the process are those of the first graph."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Set

from npugraph.ge.config import CompilerConfig, ge_options
from npugraph.ge.config.effects import settings_of_torch
from npugraph.log import logger

_lock = threading.Lock()
_options: dict[str, str] | None = None
_given: Set[str] = frozenset()  # the names of options that the first start was given


def initialize_graph_engine(global_compile_options: Mapping[str, str] | None = None) -> None:
    """Starts the engine with these options of the process. Those that are not given have their defaults, or are what
    torch and torch_npu are set to at the first start; other settings later are no error, because they are no options,
    and the current device differs by thread. Raises what ``start`` raises."""
    _, defaults = ge_options(CompilerConfig())
    _start({**defaults, **(global_compile_options or {})}, settings_of_torch())


def start(options: Mapping[str, str]) -> None:
    """Starts the engine with these options and no other ones. A second call with the same ones does nothing. Raises
    ``ValueError`` for other ones, because they hold until ``finish``."""
    _start(options, {})


def _start(options: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """An option with its value in ``settings`` counts as not given."""
    global _options, _given
    given = {name: value for name, value in options.items() if settings.get(name) != value}
    with _lock:
        if _options is None:
            logger.info("Initializing GE with options:%s", "".join(f"\n    {n}: {v}" for n, v in options.items()))
            _options, _given = dict(options), given.keys()
            return
        names = given.keys() | (_given - settings.keys())
        changed = {name for name in names if given.get(name) != _options.get(name)}
        if changed:
            told = ", ".join(f"{n}={given.get(n)!r} (was {_options.get(n)!r})" for n in sorted(changed))
            raise ValueError(
                f"options of the graph engine hold for the process and cannot change: {told}; "
                "torchair.core._torchair.FinalizeGraphEngine() lets the next graph start it with other ones"
            )


def finish() -> None:
    """Lets the next start have other options. Graphs that are compiled keep running, with the options that they
    have."""
    global _options
    with _lock:
        _options = None
