# SPDX-License-Identifier: Apache-2.0
"""Moves writes of inputs in front of events that the program around the graph sees.

A functional graph writes its inputs at its end, after all events. Dynamo therefore refuses, for every backend, programs
that write an input and then record such an event. Here the write moves directly behind the node that computes its
value, on the same stream, and so in front of the event:

    y = x + 1                          y = x + 1
    record_program_event(0, 1)   ->    x.copy_(y)
    x.copy_(y)                         record_program_event(0, 1)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._dynamo.output_graph import OutputGraph

from npugraph.fx import own_backends
from npugraph.fx.streams.stream_marks import is_mark, records_for_program


def install() -> None:
    """Makes Dynamo accept graphs without gradients that record such events, if the backend is npugraph's."""
    refuse = OutputGraph.check_event_record_after_input_mutation

    def check(graph: OutputGraph, stream_index: int) -> None:
        if not own_backends.compiles(graph) or _has_gradients(graph):
            refuse(graph, stream_index)

    OutputGraph.check_event_record_after_input_mutation = check


def _has_gradients(graph: OutputGraph) -> bool:
    """Whether AOTAutograd may write inputs itself, after the graph."""
    inputs = graph.root_tracer.graph.find_nodes(op="placeholder")
    values = [node.meta.get("example_value") for node in inputs]
    return torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)


def epilogues(graph: fx.Graph) -> set[fx.Node]:
    """The copies into inputs at the end of the graph."""
    found: set[Any] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or is_mark(node):
            continue
        if node.target is not torch.ops.aten.copy_.default or node.args[0].op != "placeholder":
            break
        found.add(node)
    return found


def write_before_records(graph: fx.Graph) -> None:
    """Moves copies into inputs in front of events, in place. A copy stays if the old values of its input are read
    later."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    records = [places[node] for node in places if records_for_program(node)]
    if not records:
        return
    for copy in epilogues(graph):
        written, value = copy.args[:2]
        last_read = max(places[user] for user in written.users if user is not copy) if len(written.users) > 1 else -1
        if value.op == "call_function" and last_read <= places[value] < records[-1]:
            value.append(copy)
