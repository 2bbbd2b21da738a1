# SPDX-License-Identifier: Apache-2.0
"""What backend npugraph_ex gets of a configuration."""

from __future__ import annotations

from typing import Any

from npugraph.ge.config.tree import CompilerConfig, Holder, holders


def npugraph_options(config: CompilerConfig) -> dict[str, Any]:
    """Returns the options of ``npugraph.options`` that a configuration sets, as ``npugraph.options.parse`` takes them:
    those that the user set, that mean something for the mode and that act there.

    Raises ``ValueError`` if two options of the tree set the same one to different values.
    """
    mode = config.mode.value
    setters: dict[str, Holder] = {}
    for holder in holders(config).values():
        row = holder.row
        if not (row.option and holder.given and mode in row.modes and row.state(mode) == "acts"):
            continue
        other = setters.setdefault(row.option, holder)
        if _value(other) != _value(holder):
            raise ValueError(
                f"options of torchair.CompilerConfig contradict each other: {other.row.path}={other!r} and "
                f"{row.path}={holder!r} both set option {row.option!r} of backend 'npugraph_ex'"
            )
    return {option: _value(holder) for option, holder in setters.items()}


def _value(holder: Holder) -> Any:
    return holder.row.to_option(holder.value)
