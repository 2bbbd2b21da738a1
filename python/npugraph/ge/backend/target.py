# SPDX-License-Identifier: Apache-2.0
"""The target "GE model" of the compile driver: a graph of operators becomes one of Ascend IR, which the engine runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from npugraph import _C
from npugraph.driver import graph_target
from npugraph.driver.calls import boxed_call
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import CompiledGraph, OperatorGraph, Route, Step, Target
from npugraph.ge.backend.concrete_graph import GeConcreteGraph, next_name
from npugraph.ge.backend.models import belongs_to_model
from npugraph.ge.backend.overlaps import eager_while_overlapping, written_inputs
from npugraph.ge.backend.parts import build_computed, function_of, in_parts
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import find
from npugraph.ge.fx.graph import Built
from npugraph.ge.fx.partition import Partition, convert
from npugraph.request import compile_request

# A graph of GE, or several of them with eager operators between them.
Converted = Built | Partition


def ge_target(config: CompilerConfig) -> Target[Converted]:
    """The target with the options of ``config``."""
    return Target(
        "GE model",
        # Operators of Ascend are converted whole, so they are not expanded.
        (Step("prepare", graph_target.prepare_graph, "Converters know no effects and no writes in wrappers."),),
        (),
        functools.partial(_convert, config),  # the engine compiles at the first call
        functools.partial(_function, config),
        lambda operator: find(operator) is not None,
    )


def _convert(config: CompilerConfig, graph: OperatorGraph) -> Converted:
    if config.debug.missing_converters.value == "error":
        return build_computed(graph.gm, next_name(), graph.inputs)
    is_boxed = graph.route is not Route.RECORDED
    return convert(graph.gm, graph.inputs, iter(next_name, None), build_computed, boxed=is_boxed)


def _function(config: CompilerConfig, graph: OperatorGraph, converted: Converted) -> CompiledGraph:
    if isinstance(converted, Partition):
        return CompiledGraph(eager_while_overlapping(in_parts(graph, converted, config), graph))
    return CompiledGraph(_whole(config, graph, converted))


def _whole(config: CompilerConfig, graph: OperatorGraph, built: Built) -> Callable[..., Any]:
    """Returns the function of a graph that was converted to one graph of GE."""
    is_recorded = graph.route is Route.RECORDED
    eager = eagerly(graph.entry.gm) if is_recorded else None
    if graph.route in (Route.INFERENCE, Route.FORWARD) and written_inputs(graph):
        graph.entry.depends_on_places = True
    model = GeConcreteGraph(
        config,
        graph=built.graph,
        request=compile_request(graph.config, built.graph.name, graph.route.kind),
        boxed=not is_recorded,
        fallback=eager if built.is_plain else None,
        noted=belongs_to_model(graph, [graph.inputs[place].kind for place in built.fed]),
        observer=graph.observer,
    )
    if eager is None:
        return boxed_call(model if built.is_plain else _boxed(model, built))
    return model if built.is_plain else _positional(model, built, eager)


def _positional(graph: GeConcreteGraph, built: Built, eager: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a graph of operators of which the engine runs ``built``. ``eager`` runs overlapping inputs."""
    function = function_of(built, graph)

    def call(*inputs: Any) -> Any:
        try:
            return function(*inputs)
        except _C.InputsOverlap:  # nothing has run
            return eager("overlapping_inputs", *inputs)

    return call


def _boxed(graph: GeConcreteGraph, built: Built) -> Callable[..., Any]:
    """The same for a list of inputs, which a call empties: only inputs that are outputs live as long as the call."""
    pick, begin = built.picker(), built.outputs.finisher()

    def call(inputs: list[Any]) -> Any:
        finish = begin(inputs)
        given = list(pick(inputs))
        inputs.clear()
        return finish(graph(given))

    return call
