# SPDX-License-Identifier: Apache-2.0
"""The switches of the compiler that the ladder can turn off, and the ways in which it runs a script."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from npugraph.options import OPTIONS, CompilerConfig, pass_names

_NAMES = {option.name for option in OPTIONS}


@dataclasses.dataclass(frozen=True)
class Switch:
    """A part of a compile that can be left out: the option ``name`` set to ``off``, or a graph pass."""

    name: str
    off: Any = False
    is_graph_pass: bool = False

    def __str__(self) -> str:
        return f"graph pass {self.name}" if self.is_graph_pass else f"option {self.name}"

    def turn_off(self, config: CompilerConfig) -> None:
        if self.is_graph_pass:
            config.disable_passes = [*config.disable_passes.value, self.name]
        else:
            setattr(config, self.name, self.off)


def switches() -> list[Switch]:
    """All switches, in the order in which a graph meets them."""
    on_fx = [
        Switch("post_grad_custom_pre_pass", None),
        Switch("remove_noop_ops"),
        Switch("pattern_fusion_pass"),
        Switch("post_grad_custom_post_pass", None),
    ]
    return [*on_fx, *(Switch(name, is_graph_pass=True) for name in pass_names()), Switch("generate_code")]


@dataclasses.dataclass(frozen=True)
class Step:
    """One way to run a script. ``front`` is the backend: torch's "eager" or "aot_eager", or "npugraph_ex". The last one
    gets the options of the script, with ``options`` over them and with ``off`` turned off."""

    name: str
    front: str = "npugraph_ex"
    options: tuple[tuple[str, Any], ...] = ()
    off: tuple[Switch, ...] = ()
    rules_off: tuple[str, ...] = ()  # names of replacement rules

    def config(self, of_script: CompilerConfig) -> CompilerConfig:
        config = copy.deepcopy(of_script)
        for name, value in self.options:
            setattr(config, name, value)
        for switch in self.off:
            switch.turn_off(config)
        return config


EAGER = Step("eager", "eager")


def rungs() -> list[Step]:
    """The steps after eager, from the least of the compiler to everything that the script asked for."""
    forced = [Step(name, options=((name, True),)) for name in ("force_eager", "force_recapture") if name in _NAMES]
    return [Step("aot_eager", "aot_eager"), *forced, Step("replay")]
