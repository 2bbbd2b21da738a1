# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs as bytes, from which another process makes the same functions without compiling.

The bytes are a container: the options for runs, the saved Program, and those of the pieces in which the graph may have
to run. The machine code of a Program comes from the cache of machine code, or else is generated again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from npugraph import host_device
from npugraph.fx.translate.pieces import CompiledPiece, Pieces
from npugraph.stored import container, fx_graphs, programs
from npugraph.stored.container import Content, Entry, Unusable
from npugraph.stored.fx_graphs import NotStorable

Run = Callable[..., Any]


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


def pack(parts: Parts) -> bytes:
    """Returns the bytes. Pieces that no call has needed so far are compiled. Raises ``NotStorable``."""
    if parts.reason:
        raise NotStorable(parts.reason)
    whole = [] if parts.only_pieces else [_entry({}, parts.artifact)]
    graph, pieces = _described(parts.pieces) if parts.pieces else (None, [])
    meta = {"name": parts.artifact.name, "boxed": parts.boxed, "options": parts.options, "pieces": graph}
    return container.pack(meta, whole + pieces)


def _entry(record: dict[str, Any], artifact: Any) -> Entry:
    try:
        return Entry(record, programs.bytes_of(artifact))
    except ValueError as error:
        raise NotStorable(str(error)) from None


def _described(pieces: Pieces) -> tuple[dict[str, Any], list[Entry]]:
    """Returns the graph of the pieces as data, and an entry for each piece."""
    entries: list[Entry] = []

    def name_of(module: torch.nn.Module) -> str | None:
        if not isinstance(module, CompiledPiece):
            return None
        name = f"piece_{len(entries)}"
        entries.append(_entry({"piece": name, "single": module.is_single}, module.run.owner))
        return name

    return fx_graphs.described(pieces.split(), name_of), entries


def function_of(data: bytes) -> Run:
    """Returns the function whose bytes ``pack`` returned. Raises ``Unusable`` if the bytes are damaged, or if this
    process lacks an operator or process group of the graph."""
    return _function(container.unpack(data))


def cached_function_of(data: bytes, *, positional: bool = False) -> Run:
    """The same for bytes from a cache, where the graph of another build gives way to a new one. Raises ``Unusable``
    also if another build made them. A ``positional`` function takes its inputs one by one, also if the function that
    was stored takes a list."""
    content = container.unpack(data)
    content.require_this_build()
    run = _function(content)
    return (lambda *inputs: run(list(inputs))) if positional and content.meta["boxed"] else run


def _function(content: Content) -> Run:
    try:
        options, boxed, graph = (content.meta[name] for name in ("options", "boxed", "pieces"))
        wholes = [entry.program for entry in content.entries if "piece" not in entry.record]
        whole = programs.function_of(wholes[0], options, boxed=boxed) if wholes else None
        if graph is None:
            return whole
        pieces = {
            entry.record["piece"]: CompiledPiece(
                programs.function_of(entry.program, options, boxed=False), entry.record["single"]
            )
            for entry in content.entries
            if "piece" in entry.record
        }
        return _in_pieces(whole, fx_graphs.function_of(graph, pieces), boxed=boxed)
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{content.meta.get('name')} has to be compiled again: {error}") from None


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
