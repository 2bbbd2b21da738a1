# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs as text, from which another process makes the same functions without compiling.

The text is JSON: what it was made with, the options for runs, and the saved Programs. Nothing in it is unpickled. The
machine code of a Program comes from the cache of machine code, or else is generated again.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch

from npugraph import host_device, serialize
from npugraph.driver import graph_text
from npugraph.driver.graph_text import NotStorable
from npugraph.fx.translate.pieces import CompiledPiece, Pieces
from npugraph.made_with import MADE_WITH

Run = Callable[..., Any]

_KIND = "compiled graph of npugraph"
_VERSION = 1


class StaleText(ValueError):
    """A text from which no function can be made here. The graph has to be compiled again."""


@dataclasses.dataclass
class Parts:
    """What a compiled graph consists of. ``reason`` says why it cannot be stored, and is empty if it can. A ``boxed``
    function takes one list of inputs, which it empties. With ``only_pieces`` the Program is bound to this process, and
    the stored graph always runs in pieces."""

    artifact: Any
    options: Mapping[str, Any]
    boxed: bool
    pieces: Pieces | None = None
    only_pieces: bool = False
    reason: str = ""


def text_of(parts: Parts) -> str:
    """Returns the text. Pieces that no call has needed so far are compiled. Raises ``NotStorable``."""
    if parts.reason:
        raise NotStorable(parts.reason)
    content = {
        "kind": _KIND,
        "version": _VERSION,
        "made_with": MADE_WITH,
        "name": parts.artifact.name,
        "boxed": parts.boxed,
        "options": parts.options,
        "program": None if parts.only_pieces else _encoded(parts.artifact),
        "pieces": parts.pieces and _describe_pieces(parts.pieces),
    }
    return json.dumps(content, indent=1)


def _encoded(artifact: Any) -> str:
    try:
        return base64.b64encode(serialize.program_of(artifact)).decode("ascii")
    except ValueError as error:
        raise NotStorable(str(error)) from None


def _describe_pieces(pieces: Pieces) -> dict[str, Any]:
    programs: dict[str, Any] = {}

    def name_of(module: torch.nn.Module) -> str | None:
        if not isinstance(module, CompiledPiece):
            return None
        name = f"piece_{len(programs)}"
        programs[name] = {"program": _encoded(module.run.owner), "single": module.is_single}
        return name

    return {"graph": graph_text.described(pieces.split(), name_of), "programs": programs}


def function_of(text: str) -> Run:
    """Returns the function that ``text_of`` described. Raises ``StaleText`` if the text is damaged or was made by
    another build, or if this process lacks an operator or process group of it."""
    return _function(_parsed(text))


def positional_function_of(text: str) -> Run:
    """The same as a function of the inputs one by one, also for a boxed function."""
    content = _parsed(text)
    run = _function(content)
    return (lambda *inputs: run(list(inputs))) if content["boxed"] else run


def _function(content: Mapping[str, Any]) -> Run:
    try:
        options = content["options"]
        whole = content["program"] and _program(content["program"], options, boxed=content["boxed"])
        if content["pieces"] is None:
            return whole
        return _in_pieces(whole, _pieces(content["pieces"], options), boxed=content["boxed"])
    except (ValueError, KeyError, TypeError) as error:
        raise StaleText(f"{content['name']} has to be compiled again: {error}") from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
        kind = content["kind"], content["version"]
        made_with = content["made_with"]
    except (ValueError, KeyError, TypeError):
        raise StaleText("this is no compiled graph of npugraph, or it is damaged; compile the graph again") from None
    if kind != (_KIND, _VERSION):
        raise StaleText(f"this is a {kind[0]} of version {kind[1]}, and not of {_VERSION}; compile the graph again")
    for name, here in MADE_WITH.items():
        if made_with.get(name) != here:
            raise StaleText(
                f"{content.get('name')} was compiled with {name} {made_with.get(name)}, and this is {here}; "
                "delete the cache that holds it, so that it is compiled again"
            )
    return content


def _program(encoded: str, options: Mapping[str, Any], *, boxed: bool) -> Run:
    return serialize.function_of(base64.b64decode(encoded), options, boxed=boxed)


def _pieces(content: Mapping[str, Any], options: Mapping[str, Any]) -> Run:
    pieces = {
        name: CompiledPiece(_program(piece["program"], options, boxed=False), piece["single"])
        for name, piece in content["programs"].items()
    }
    return graph_text.function_of(content["graph"], pieces)


def _in_pieces(whole: Run | None, pieces: Run, *, boxed: bool) -> Run:
    """Runs ``pieces`` while a graph of npu is captured, or always if there is no ``whole``."""

    def call(*inputs: Any) -> Any:
        if whole is not None and not host_device.is_captured():
            return whole(list(inputs)) if boxed else whole(*inputs)
        with torch.no_grad():
            return pieces(*inputs)

    def boxed_call(inputs: list[Any]) -> Any:
        if whole is not None and not host_device.is_captured():
            return whole(inputs)
        given = list(inputs)
        inputs.clear()
        return call(*given)

    boxed_call._boxed_call = True  # for AOTAutograd
    return torch._dynamo.disable(boxed_call if boxed else call)
