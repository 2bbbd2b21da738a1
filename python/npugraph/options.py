# SPDX-License-Identifier: Apache-2.0
"""The options of the backend: one table, from which validation and error texts derive."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

_KINDS = {str: "a str", bool: "a bool", int: "an int", tuple: "a list"}


@dataclasses.dataclass(frozen=True)
class Option:
    """One entry of ``options={...}``: its name, default, what it accepts, and a sentence for people."""

    name: str
    default: Any
    kind: type
    help: str
    check: Callable[[Any], bool] = lambda value: True
    allowed: str = ""

    def validate(self, value: Any) -> Any:
        """Returns the value to use. ``TypeError`` for another type, ``ValueError`` for a value that is not allowed."""
        if self.kind is tuple and isinstance(value, (list, tuple)):
            value = tuple(value)
        # bool is a subclass of int, and True is hardly ever meant as the number 1.
        right_type = isinstance(value, self.kind) and not (self.kind is int and isinstance(value, bool))
        if not right_type:
            raise TypeError(
                f"option {self.name!r} of backend 'npugraph_ex' takes {_KINDS[self.kind]}, "
                f"got {value!r} ({type(value).__name__})"
            )
        if not self.check(value):
            raise ValueError(f"option {self.name!r} of backend 'npugraph_ex' takes {self.allowed}, got {value!r}")
        return value


def _positive(value: int) -> bool:
    return 1 <= value < 2**31


def _known_passes(names: tuple) -> bool:
    return all(isinstance(name, str) and name in pass_names() for name in names)


def pass_names() -> list[str]:
    """Names of the graph passes, for ``disable_passes``."""
    from npugraph import _C

    return _C.pass_names()


_POSITIVE = "an int from 1 to 2**31 - 1"

OPTIONS: tuple[Option, ...] = (
    Option("name", "", str, "Name of the artifact; by default made from the name of the compiled function."),
    Option("force_eager", False, bool, "Run all passes, but bind before every run and keep no captured Instance."),
    Option("inplace_pass", True, bool, "Turn operators on dying intermediates into their in-place forms."),
    Option("input_inplace_pass", True, bool, "Turn updates of inputs into in-place operators, without the copy back."),
    Option(
        "disable_passes",
        (),
        tuple,
        "Graph passes to leave out, by name.",
        _known_passes,
        "names of graph passes (npugraph.options.pass_names() lists them)",
    ),
    Option(
        "generate_code", True, bool, "Run what can be generated as fused, generated code; else as torch's operators."
    ),
    Option(
        "release_original_weights",
        False,
        bool,
        "Compute once what is computed from weights alone (casts of autocast), and free the weights that the graph "
        "does not read then. Takes away: eager calls, other graphs of these weights, state_dict(), "
        "load_state_dict(), later changes of the weights, training.",
    ),
    Option("verify", False, bool, "Verify the graph after every pass."),
    Option("max_instances", 64, int, "Captured Instances kept per graph.", _positive, _POSITIVE),
    Option(
        "max_concurrent",
        4,
        int,
        "Calls of one graph at the same time; more wait.",
        _positive,
        _POSITIVE,
    ),
)

_BY_NAME = {option.name: option for option in OPTIONS}


@dataclasses.dataclass(frozen=True)
class Options:
    """Checked options of one compile, in the order of ``OPTIONS``."""

    name: str
    force_eager: bool
    inplace_pass: bool
    input_inplace_pass: bool
    disable_passes: tuple[str, ...]
    generate_code: bool
    release_original_weights: bool
    verify: bool
    max_instances: int
    max_concurrent: int

    @staticmethod
    def parse(options: Mapping[str, Any] | None, mode: str | None = None) -> Options:
        """Checks what the user gave to ``torch.compile``.

        Raises ``ValueError`` for an unknown name (the message lists the known ones), for a value that is not allowed
        and for ``mode``; ``TypeError`` for a value of the wrong type and for ``options`` that are no dict.
        """
        if mode not in (None, "default"):
            raise ValueError(f"backend 'npugraph_ex' takes no mode, got mode={mode!r}; use options={{...}}: {_known()}")
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(
                f"options of backend 'npugraph_ex' takes a dict, got {options!r} ({type(options).__name__})"
            )
        given = dict(options or {})
        unknown = [name for name in given if name not in _BY_NAME]
        if unknown:
            like = difflib.get_close_matches(str(unknown[0]), _BY_NAME, n=1)
            hint = f"did you mean {like[0]!r}? The" if like else "the"
            raise ValueError(f"unknown option {unknown[0]!r} of backend 'npugraph_ex'; {hint} options are: {_known()}")
        values = {o.name: o.validate(given[o.name]) if o.name in given else o.default for o in OPTIONS}
        return Options(**values)

    def disabled_passes(self) -> list[str]:
        """All passes that the options switch off, by name."""
        disabled = list(self.disable_passes)
        if not self.inplace_pass:
            disabled.append("reinplace_intermediates")
        if not self.input_inplace_pass:
            disabled.append("reinplace_inputs")
        return disabled

    def as_dict(self) -> dict[str, Any]:
        """Name to value, for people."""
        return dataclasses.asdict(self)


def _known() -> str:
    return ", ".join(o.name for o in OPTIONS)
