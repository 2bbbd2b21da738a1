# SPDX-License-Identifier: Apache-2.0
"""Streams and events in Dynamo's graph -> marks (``npugraph_ex::*``), before the graph is traced into operators.

    with npu.stream(side):              scope_enter(["_user_stream_label", ...], ["stream_1", ...])
        y = x @ w                ->     y = x @ w
    main.wait_stream(side)              scope_exit()
                                        tagged_stream_wait_stream("main", "stream_1")

Dynamo names streams and events by their numbers in a table. It puts the stream of each call inside a ``with`` into the
metadata of the call. For other backends it adds calls of ``current_stream`` and ``set_stream`` around the block, too.
An event that existed before the graph, or that keeps time, is also recorded for the program to see
(``record_program_event``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo import graph_bytecode_inputs as objects
from torch._dynamo.exc import ShortenTraceback

from npugraph.fx.streams.scopes import why_open
from npugraph.fx.streams.stream_marks import LABEL, MAIN, is_mark, marks

_ops = torch.ops.streams


class StreamNotRestored(ShortenTraceback, RuntimeError):
    """A graph ends on another stream than the one on which it began."""


def has_streams(gm: fx.GraphModule) -> bool:
    """Whether Dynamo met a stream or event besides the current stream, or a wait, while it traced the graph."""
    if len(objects.index_to_external_object_weakref) > 1:
        return True
    return any(gm.graph.find_nodes(op="call_function", target=target, sort=False) for target in _READERS)


def mark_streams(gm: fx.GraphModule) -> list[int]:
    """Replaces streams and events by marks, in place. Returns the numbers of the different streams that the program,
    and not the graph, has made. Raises ``StreamNotRestored`` if the graph ends on another stream than the one on which
    it began."""
    rewriter = _Rewriter(gm.graph)
    if (left := rewriter.run()) is not None:
        raise StreamNotRestored(_open_stream(gm, *left), first_useful_frame=inspect.currentframe())
    gm.recompile()
    return [index for index in rewriter.numbers if _is_from_outside(index)]


def are_different(streams: Sequence[int]) -> bool:
    """Whether these numbers stand for different streams in the call that begins. Dynamo keeps one table for all
    threads, so a number may be missing from it. A missing number counts as different."""
    found: set[Any] = set()
    for index in streams:
        known = objects.index_to_external_object_weakref.get(index, lambda: None)()
        found.add((known.device_index, known.stream_id) if isinstance(known, torch.Stream) else index)
    return len(found) == len(streams)


class _Rewriter:
    def __init__(self, graph: fx.Graph) -> None:
        marks()  # declares their side effects, so that they are not dead code
        self.graph = graph
        self.base: int | None = None  # the stream that set_stream chose
        self.chosen: fx.Node | None = None  # the call of set_stream that did so
        self.within: int | None = None  # the stream of the `with` around that call
        self.asked: dict[fx.Node, int | None] = {}  # calls of current_stream, each with its stream
        self.entered: int | None = None  # the stream whose scope is open
        self.labels: dict[tuple[int, int], str] = {_identity(0): MAIN}
        self.numbers = [0]  # numbers of the streams with labels
        self.recorded: set[str] = set()  # tags of events that the graph has recorded so far

    def run(self) -> tuple[str, fx.Node] | None:
        """Rewrites the graph. If the graph ends on another stream than the one on which it began, returns the label of
        that stream and the call that chose it."""
        for node in self._calls():
            for index in _streams_of(node):
                self._label(index)
        for node in self._calls():
            self._visit(node)
        output = next(iter(self.graph.find_nodes(op="output")))
        if self.base is not None:
            return self._label(self.base), self.chosen
        with self.graph.inserting_before(output):
            self._enter(None)
        for node in [
            *self.asked,
            *self.graph.find_nodes(op="call_function", target=objects.get_external_object_by_index),
        ]:
            if not node.users:
                self.graph.erase_node(node)
        return None

    def _calls(self) -> list[fx.Node]:
        skipped = ("placeholder", "get_attr", "output")
        return [
            node
            for node in self.graph.nodes
            if node.op not in skipped and node.target is not objects.get_external_object_by_index
        ]

    def _visit(self, node: fx.Node) -> None:
        if _is_current_stream(node):
            self.asked[node] = self._stream_of(node)
            return
        if _is_set_stream(node):
            stream = node.args[0]
            self.base, self.chosen = self.asked[stream] if stream in self.asked else _index_of(stream), node
            self.within = _entered(node)
            if self.base is not None and self._label(self.base) == MAIN:
                self.base = None
            self.graph.erase_node(node)
            return
        read = _READERS.get(node.target)
        if read is not None:
            with self.graph.inserting_before(node):
                read(self, *node.args)
            self.graph.erase_node(node)
            return
        with self.graph.inserting_before(node):
            self._enter(self._stream_of(node))
        # Otherwise AOTAutograd would order gradients by streams itself. Gradients have no streams here.
        custom = node.meta.get("custom") or {}
        node.meta["custom"] = {key: value for key, value in custom.items() if key != "stream"}

    def _stream_of(self, node: fx.Node) -> int | None:
        """The stream of the innermost `with` around a call, unless set_stream chose another one inside it."""
        entered = _entered(node)
        return self.base if entered in (None, self.within) else entered

    def _label(self, index: int) -> str:
        identity = _identity(index)
        if identity not in self.labels:
            self.labels[identity] = f"stream_{index}"
            self.numbers.append(index)
        return self.labels[identity]

    def _enter(self, index: int | None) -> None:
        """Makes ``index`` the stream of the nodes that follow. None is the stream on which the graph is called."""
        label = MAIN if index is None else self._label(index)
        if label == (MAIN if self.entered is None else self._label(self.entered)):
            return
        if self.entered is not None:
            self._add("scope_exit")
        if label != MAIN:
            stream = objects.get_external_object_by_index(index)
            values = [label, str(stream.stream_id), str(stream.device_index), str(stream.device_type)]
            keys = [LABEL, "_user_stream_id", "_user_stream_device_index", "_user_stream_device_type"]
            self._add("scope_enter", keys, values)
        self.entered = None if label == MAIN else index

    def _add(self, name: str, *args: Any) -> fx.Node | None:
        if name == "tagged_event_record_on_stream":
            self.recorded.add(args[0])
        if name == "tagged_event_wait_on_stream" and args[0] not in self.recorded:
            return None  # an event from before the graph is done, as all eager work is
        return self.graph.call_function(getattr(torch.ops.npugraph_ex, name).default, args)

    def _record_event(self, event: int, stream: int) -> None:
        outside = _is_from_outside(event) or _keeps_time(event)
        if outside:
            self._enter(stream)
            self._add("record_program_event", event, stream)
        self._add("tagged_event_record_on_stream", _tag(event), self._label(stream), not outside)

    def _wait_event(self, event: int, stream: int) -> None:
        self._add("tagged_event_wait_on_stream", _tag(event), self._label(stream))

    def _wait_stream(self, stream: int, other: int) -> None:
        self._add("tagged_stream_wait_stream", self._label(stream), self._label(other))

    # If the program itself waits, everything that it launches later comes after what it waits for.

    def _synchronize_event(self, event: int) -> None:
        for label in self.labels.values():
            self._add("tagged_event_wait_on_stream", _tag(event), label)

    def _synchronize_stream(self, stream: int) -> None:
        for label in self.labels.values():
            if label != self._label(stream):
                self._add("tagged_stream_wait_stream", label, self._label(stream))

    def _synchronize_device(self, kind: str, index: int) -> None:
        for label in self.labels.values():
            if label != MAIN:
                self._add("tagged_stream_wait_stream", MAIN, label)
        for label in self.labels.values():
            if label != MAIN:
                self._add("tagged_stream_wait_stream", label, MAIN)

    def _record_stream(self, tensor: fx.Node, stream: int) -> None:
        self._add("record_tagged_stream", tensor, self._label(stream))


def _targets(op: Any) -> tuple[Any, Any]:
    return op, op.default


_READERS: dict[Any, Callable[..., Any]] = {
    target: read
    for op, read in (
        (_ops.record_event, _Rewriter._record_event),
        (_ops.wait_event, _Rewriter._wait_event),
        (_ops.wait_stream, _Rewriter._wait_stream),
        (_ops.synchronize_event, _Rewriter._synchronize_event),
        (_ops.synchronize_stream, _Rewriter._synchronize_stream),
        (_ops.synchronize_device, _Rewriter._synchronize_device),
        (_ops.record_stream, _Rewriter._record_stream),
    )
    for target in _targets(op)
}


def _streams_of(node: fx.Node) -> list[int]:
    """Numbers of the streams that a call names or runs on."""
    found = [] if is_mark(node) else [_entered(node)]
    if _is_set_stream(node):
        found.append(_index_of(node.args[0]))
    elif node.target in _READERS and node.target not in _targets(_ops.synchronize_device):
        found += [arg for arg in node.args if _is_stream(arg)]
    return [index for index in found if index is not None]


def _is_stream(arg: Any) -> bool:
    return isinstance(arg, int) and isinstance(_object(arg), torch.Stream)


def _is_set_stream(node: fx.Node) -> bool:
    if getattr(node.target, "__name__", None) != "set_stream" or not node.args:
        return False
    return _index_of(node.args[0]) is not None or _is_current_stream(node.args[0])


def _is_current_stream(node: Any) -> bool:
    return isinstance(node, fx.Node) and getattr(node.target, "__name__", None) == "current_stream"


def _index_of(node: Any) -> int | None:
    is_object = isinstance(node, fx.Node) and node.target is objects.get_external_object_by_index
    return node.args[0] if is_object else None


def _entered(node: fx.Node) -> int | None:
    """The stream of the innermost `with` around a call."""
    return (node.meta.get("custom") or {}).get("stream")


def _identity(index: int) -> tuple[int, int]:
    stream = _object(index)
    return stream.device_index, stream.stream_id


def _object(index: int) -> Any:
    """The stream or event of this number. The current stream that Dynamo met may be gone; then torch is asked again."""
    if index == objects.CURRENT_STREAM_INDEX and objects.index_to_external_object_weakref[index]() is None:
        return torch.accelerator.current_stream()
    return objects.get_external_object_by_index(index)


def _tag(event: int) -> str:
    """The tag of an event. It is the same for all numbers of one event."""
    found = objects.get_external_object_by_index(event)
    numbers = objects.index_to_external_object_weakref
    return f"event_{min(i for i in numbers if numbers[i]() is found)}"


def _is_from_outside(index: int) -> bool:
    """Whether the stream or event existed before the graph. Dynamo then has a source for it and did not make it."""
    return "source" in objects.index_to_bytecode_constructor[index].__code__.co_freevars


def _keeps_time(event: int) -> bool:
    """Whether the program may ask an event that the graph makes for its time."""
    example = objects.get_external_object_by_index(event)
    example.record(_object(objects.CURRENT_STREAM_INDEX))
    try:
        example.elapsed_time(example)
    except (RuntimeError, ValueError):
        return False
    return True


def _open_stream(gm: fx.GraphModule, label: str, chosen: fx.Node) -> str:
    not_undone = (
        ", because set_stream was not undone: use `with torch.npu.stream(stream):`, which restores it at its end"
    )
    why = why_open(gm, [chosen]) or not_undone
    return f"the graph ends on another stream ({label}) than that on which it began{why}"
