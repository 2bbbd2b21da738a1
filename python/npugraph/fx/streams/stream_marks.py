# SPDX-License-Identifier: Apache-2.0
"""The operators ``npugraph_ex::*`` and ``air::*`` that mark streams, events, core limits and further scopes in graphs.
Those of ``air``, which ``torchair`` calls, mean the same."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

MAIN = "main"  # the label of the stream on which a graph is called
LABEL, PRIORITY, INNER_PARALLEL = "_user_stream_label", "_user_stream_priority", "_enable_inner_parallel"
STREAM = (
    *(LABEL, PRIORITY, INNER_PARALLEL),
    *("_user_stream_id", "_user_stream_device_index", "_user_stream_device_type"),
)
LIMITS = ("_op_aicore_num", "_op_vectorcore_num")  # of cube and of vector cores

_NAMES_OF_AIR = (
    "scope_enter",
    "scope_exit",
    "record",
    "wait",
    "tagged_event_record",
    "tagged_event_wait",
    "record_tagged_stream",
)
_NAMES = (
    *_NAMES_OF_AIR,
    "tagged_event_record_on_stream",
    "tagged_event_wait_on_stream",
    "tagged_stream_wait_stream",
    "record_tagged_stream_",
    "record_tagged_on_stream",
    "record_tagged_on_stream_",
)
_LAUNCH = "record_program_event"  # a mark that has a task

# Fake tensors treat an operator without operands as one that makes tensors on a device.
for _namespace in ("npugraph_ex", "air"):
    torch.library.register_fake(f"{_namespace}::record", lambda: torch.empty(0))
torch.library.register_fake(f"npugraph_ex::{_LAUNCH}", lambda event, stream: None)


@functools.cache
def marks() -> dict[Any, str]:
    """All marks, with their names. The first call declares their side effects, so that they are not dead code if
    nothing uses their results."""
    found = {getattr(torch.ops.npugraph_ex, name).default: name for name in (*_NAMES, _LAUNCH)}
    found |= {getattr(torch.ops.air, name).default: name for name in _NAMES_OF_AIR}
    for mark in found:
        fx.node.has_side_effect(mark)
    return found


def has_marks(graph: fx.Graph) -> bool:
    return any(graph.find_nodes(op="call_function", target=mark, sort=False) for mark in marks())


def drop_marks(graph: fx.Graph) -> None:
    """Puts everything on one stream: removes all marks but the records that the program sees, and those whose results
    are read."""
    for node in reversed(graph.nodes):
        if is_mark(node) and not node.users:
            graph.erase_node(node)


def is_mark(node: fx.Node) -> bool:
    """Whether a node is a mark that has no task."""
    return node.op == "call_function" and marks().get(node.target, _LAUNCH) != _LAUNCH


def records_for_program(node: fx.Node) -> bool:
    """Whether a node records an event that the program around the graph sees."""
    return node.op == "call_function" and marks().get(node.target) == _LAUNCH
