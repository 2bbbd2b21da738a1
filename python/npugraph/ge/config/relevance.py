# SPDX-License-Identifier: Apache-2.0
"""Which options of a configuration have no effect, and the warning that says so."""

from __future__ import annotations

import warnings

from npugraph.ge.config.row import Row
from npugraph.ge.config.tree import CompilerConfig, Holder, holders
from npugraph.warning_kinds import NpugraphWarning


def irrelevant_options(config: CompilerConfig) -> list[str]:
    """Returns the paths of options that were set and mean nothing for the mode. An option that was set to what it is
    anyway asks for nothing, so it is not among them."""
    return [row.path for row in _irrelevant(config)]


def recorded_options(config: CompilerConfig) -> list[str]:
    """Returns the paths of options that were set, mean something for the mode and have no effect here. An option that
    asks for what the engine does in any case is not among them."""
    return [row.path for row in _recorded(config)]


def warn_of_irrelevant(config: CompilerConfig, stacklevel: int = 2) -> None:
    """Gives one ``NpugraphWarning``, which is a ``UserWarning``, that names all options without effect: those that mean
    nothing for the mode, and those that are only recorded, with the reason. Gives none if there are no such options.

    ``stacklevel`` is that of ``warnings.warn``: 2 stands for the line that calls this function.
    """
    ignored = [f"{row.path} (of {' and '.join(map(repr, row.modes))})" for row in _irrelevant(config)]
    texts = [f"mode {config.mode.value!r} ignores {', '.join(ignored)}"] if ignored else []
    texts += [f"{row.path} is recorded and has no effect: {row.no_effect}" for row in _recorded(config)]
    if texts:
        warnings.warn(f"torchair.CompilerConfig: {'; '.join(texts)}", NpugraphWarning, stacklevel=stacklevel)


def _irrelevant(config: CompilerConfig) -> list[Row]:
    return [holder.row for holder in _changed(config) if config.mode.value not in holder.row.modes]


def _recorded(config: CompilerConfig) -> list[Row]:
    mode = config.mode.value
    return [
        holder.row
        for holder in _changed(config)
        if mode in holder.row.modes and holder.row.state(mode) == "recorded" and holder.value not in holder.row.granted
    ]


def _changed(config: CompilerConfig) -> list[Holder]:
    return [holder for holder in holders(config).values() if not holder.is_default()]
