# SPDX-License-Identifier: Apache-2.0
"""From options to what the compiler and the runtime are asked for: ``_C.CompileRequest`` and ``_C.RunRequest``.

The rows of ``options.py`` say which field of a request an option sets. A loaded Program takes the options of the phase
"run" alone, because its compile is over.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from npugraph import _C
from npugraph.options import BACKEND, OPTIONS, CompilerConfig, Option, Phase, backend_of, disabled_passes, parse
from npugraph.warning_kinds import NpugraphWarning

# The options that a loaded Program takes.
RUN_OPTIONS = tuple(option.name for option in OPTIONS if option.phase is Phase.RUN)
# Options of a graph that hold for the graphs which its control flow runs. The others speak of inputs, results and
# memory of the outer graph.
_OF_NESTED = ("force_eager", "max_instances", "max_concurrent")


def compile_request(config: CompilerConfig, name: str, kind: str = "inference", guards: Sequence[Any] = ()) -> Any:
    """The ``_C.CompileRequest`` for a graph. ``kind`` is "inference", "forward" or "backward". ``guards`` are those of
    ``Imported``."""
    request = _C.CompileRequest()
    request.name = name
    request.training = kind != "inference"
    for option in OPTIONS:
        if option.phase is Phase.COMPILE:
            _set(request, option, config)
    request.generate = request.generate and _may_load_code(backend_of(config))
    request.disabled_passes = disabled_passes(config)
    request.guards = list(guards)
    request.run = run_request(config, kind)
    return request


def run_request(config: CompilerConfig, kind: str = "inference") -> Any:
    """The ``_C.RunRequest`` for a Program. ``kind`` is "inference", "forward" or "backward"."""
    request = _C.RunRequest()
    request.calls.label = f"npu_fx_compiler {kind}"
    for option in OPTIONS:
        if option.phase is Phase.RUN and (option.in_training or kind == "inference"):
            _set(request, option, config)
    return request


def nested_run_request(config: CompilerConfig) -> Any:
    """The ``_C.RunRequest`` for a graph that control flow of another graph runs."""
    request = _C.RunRequest()
    for option in OPTIONS:
        if option.name in _OF_NESTED:
            _set(request, option, config)
    return request


def given(config: CompilerConfig) -> dict[str, Any]:
    """The options of the phase "run" that the user set, as ``parse_for_running`` takes them."""
    values = {name: config.asked(name) for name in RUN_OPTIONS}
    return {name: value for name, value in values.items() if value is not None}


def parse_for_running(options: Mapping[str, Any] | None) -> CompilerConfig:
    """Checks the options of a Program that was compiled before. Raises what ``parse`` raises, and ``ValueError`` for an
    option that acts in the compile."""
    config = parse(options)
    for option in OPTIONS:
        if option.phase is not Phase.RUN and option.name != "mode" and config.asked(option.name) is not None:
            raise ValueError(
                f"option {option.name!r} of backend {BACKEND!r} acts when a graph is compiled, and this one was "
                f"before; a loaded Program takes: {', '.join(RUN_OPTIONS)}"
            )
    return config


def request_from_json(options: Mapping[str, Any]) -> Any:
    """The ``_C.RunRequest`` for what ``given`` returned, after it was written as JSON, which has lists for tuples."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return run_request(parse_for_running(values))


def _may_load_code(backend: str) -> bool:
    """Says whether generated code can run. The first time that it cannot, a warning says so."""
    if _C.may_load_code():
        return True
    _warn_of_forbidden_code(backend)
    return False


@functools.cache
def _warn_of_forbidden_code(backend: str) -> None:
    text = "this system forbids making memory executable: no code is generated, and operators run one at a time"
    warnings.warn(f"{backend}: {text}", NpugraphWarning, stacklevel=1)


def _set(request: Any, option: Option, config: CompilerConfig) -> None:
    """Sets the field of an option. An option that means something else when it is not set leaves its field alone."""
    value = config.asked(option.name) if option.unset else getattr(config, option.name).value
    if not option.field or value is None:
        return
    *path, name = option.field.split(".")
    for part in path:
        request = getattr(request, part)
    setattr(request, name, option.to_field(value))
