# SPDX-License-Identifier: Apache-2.0
"""Graphs of GE with eager operators between them, as one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import torch
from torch import fx

from npugraph.driver.calls import below_autocast, boxed_call
from npugraph.driver.entry import OperatorGraph, Route
from npugraph.fx.translate.importer import InputInfo
from npugraph.ge import ir
from npugraph.ge.backend.concrete_graph import GeConcreteGraph
from npugraph.ge.backend.models import belongs_to_model
from npugraph.ge.config import CompilerConfig
from npugraph.ge.fx.graph import Built, build
from npugraph.ge.fx.partition import Partition
from npugraph.ge.fx.parts import part_name
from npugraph.ge.load_stream import LoadStream
from npugraph.request import compile_request


def build_computed(gm: fx.GraphModule, name: str, inputs: Sequence[InputInfo]) -> Built:
    """Converts a graph to operators that the engine of this process computes."""
    return build(gm, name, inputs, refuse=_refuse)


def _refuse(op_types: Set[str], values: Sequence[Any]) -> str:
    if unknown := op_types - ir.computed_types():
        return f"the engine does not compute operators of type {', '.join(sorted(unknown))}"
    if any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
        return "the engine does not compute complex numbers"
    return ""


def in_parts(graph: OperatorGraph, partition: Partition, config: CompilerConfig) -> Callable[..., Any]:
    """Returns the function of a graph that was converted to ``partition``. At the first call all graphs of GE are
    compiled before any of them runs, so that an error leaves the inputs as they are."""
    gm = partition.gm
    is_recorded = graph.route is Route.RECORDED
    for node in gm.graph.nodes:
        node.meta.clear()  # what runs is its code
    run = below_autocast(gm.forward) if is_recorded else gm.forward
    load_streams: dict[torch.device, LoadStream] = {}
    pending: list[GeConcreteGraph] = []
    for index, (built, inputs) in enumerate(zip(partition.parts, partition.inputs, strict=True)):
        part = _part(built, inputs, graph, config, load_streams)
        setattr(gm, part_name(index), function_of(built, part))
        pending.append(part)

    def call(*args: Any) -> Any:
        if pending:
            for part in list(pending):
                part.compile()
            pending.clear()
        return run(*args)

    return call if is_recorded else boxed_call(call)


def _part(
    built: Built,
    inputs: Sequence[InputInfo],
    whole: OperatorGraph,
    config: CompilerConfig,
    load_streams: dict[torch.device, LoadStream],
) -> GeConcreteGraph:
    return GeConcreteGraph(
        config,
        graph=built.graph,
        request=compile_request(whole.config, built.graph.name, whole.route.kind),
        noted=belongs_to_model(whole, [inputs[place].kind for place in built.fed]),
        observer=whole.observer,
        load_streams=load_streams,
    )


def function_of(built: Built, graph: GeConcreteGraph) -> Callable[..., Any]:
    """The function of a graph of operators of which the engine runs ``built``."""
    if built.is_plain:
        return graph
    pick, begin = built.picker(), built.outputs.finisher()

    def call(*inputs: Any) -> Any:
        finish = begin(inputs)
        return finish(graph(*pick(inputs)))

    return call
