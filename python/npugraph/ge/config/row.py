# SPDX-License-Identifier: Apache-2.0
"""What the table of options says of one option of ``torchair.CompilerConfig``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from npugraph.option_values import Value
from npugraph.options import OPTIONS

GE, LEGACY, EX = MODES = ("max-autotune", "reduce-overhead", "npugraph_ex")

_OPTIONS_OF_BACKEND = {option.name: option for option in OPTIONS}


@dataclasses.dataclass(frozen=True)
class EngineOption:
    """An option of the graph engine, ``name``, that an option of the tree sets. ``text`` makes its value.

    The engine gets it if the value differs from the default. With ``when``, the path of a switch, the engine gets it
    instead if that switch is on and the value is not empty; with ``always`` it gets it in any case. ``of_process``
    says that it holds for all graphs of the process and not for one.
    """

    name: str
    text: Callable[[Any], str] = str
    _: dataclasses.KW_ONLY
    when: str = ""
    always: bool = False
    of_process: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """An option of the tree: its ``path``, a default, the values that it takes, and a sentence for people.

    ``modes`` are those in which it means something. ``engine`` is the option of the engine that it sets, ``option`` the
    option of backend npugraph_ex, with the value that ``to_option`` makes. If the option is only recorded in GE mode,
    ``no_effect`` is a sentence that says why; it is empty for an option that acts. An option that npugraph_ex has acts
    in the other modes in any case. ``granted`` has values of a recorded option that ask for what the engine does in any
    case, so that nobody has to be told. ``deprecated`` has values with what to use instead.
    """

    path: str
    default: Any
    value: Value
    help: str
    _: dataclasses.KW_ONLY
    modes: Sequence[str] = (GE,)
    engine: EngineOption | None = None
    option: str = ""
    to_option: Callable[[Any], Any] = lambda value: value
    no_effect: str = ""
    granted: Sequence[Any] = ()
    deprecated: Sequence[tuple[Any, str]] = ()

    @property
    def acts_when_given(self) -> bool:
        """Whether setting the option to its default differs from not setting it."""
        return bool(self.option and _OPTIONS_OF_BACKEND[self.option].unset)

    def state(self, mode: str) -> str:
        """Returns "acts" or "recorded", for a mode in which the option means something."""
        acts = not self.no_effect or (mode != GE and self.option)
        return "acts" if acts else "recorded"

    def instead_of(self, value: Any) -> str:
        """Returns what to use instead of a deprecated value, "" for other values."""
        return next((instead for deprecated, instead in self.deprecated if deprecated == value), "")

    def check(self, given: Any) -> Any:
        """Returns the value to use. Raises the error of ``value``, which says what was given and what is allowed."""
        if given is None and self.default is None:
            return None
        return self.value.check(f"option {self.path!r} of torchair.CompilerConfig", given)
