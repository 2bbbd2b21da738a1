# SPDX-License-Identifier: Apache-2.0
"""The target "GE model" of the compile driver: a graph of operators becomes one of Ascend IR, which the engine runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npugraph import _C
from npugraph.driver import graph_target
from npugraph.driver.calls import boxed_call
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import Route, Work
from npugraph.driver.steps import Step, Target
from npugraph.ge.backend.concrete_graph import GeConcreteGraph, next_name
from npugraph.ge.backend.models import belongs_to_model
from npugraph.ge.backend.overlaps import eager_while_overlapping, written_inputs
from npugraph.ge.backend.parts import build_computed, function_of, in_parts
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import find
from npugraph.ge.fx.graph import Built
from npugraph.ge.fx.partition import Partition, convert
from npugraph.request import compile_request


def ge_target(config: CompilerConfig) -> Target:
    """The target with the options of ``config``."""

    def convert_graph(work: Work) -> None:
        _convert(work, config)

    def function(work: Work) -> Callable[..., Any]:
        return _function(work, config)

    return Target(
        "GE model",
        (
            Step("prepare", graph_target.prepare_graph, "Converters know no effects and no writes in wrappers."),
            Step("convert", convert_graph, "Operators of Ascend are converted whole, so before they are expanded."),
        ),
        (),
        lambda work: None,  # the engine compiles at the first call
        function,
        lambda operator: find(operator) is not None,
    )


def _convert(work: Work, config: CompilerConfig) -> None:
    if config.debug.missing_converters.value == "error":
        work.imported = build_computed(work.gm, next_name(), work.inputs)
    else:
        is_boxed = work.route is not Route.RECORDED
        work.imported = convert(work.gm, work.inputs, iter(next_name, None), build_computed, boxed=is_boxed)


def _function(work: Work, config: CompilerConfig) -> Callable[..., Any]:
    if isinstance(work.imported, Partition):
        return eager_while_overlapping(in_parts(work, config), work)
    built: Built = work.imported
    request = compile_request(work.config, built.graph.name, work.route.kind)
    noted = belongs_to_model(work, [work.inputs[place].kind for place in built.fed])
    is_recorded = work.route is Route.RECORDED
    eager = eagerly(work.entry.gm) if is_recorded else None
    if work.route in (Route.INFERENCE, Route.FORWARD) and written_inputs(work):
        work.entry.depends_on_places = True
    fallback = eager if built.is_plain else None
    graph = GeConcreteGraph(
        config,
        graph=built.graph,
        request=request,
        boxed=not is_recorded,
        fallback=fallback,
        noted=noted,
        observer=work.observer,
    )
    if eager is None:
        return boxed_call(graph if built.is_plain else _boxed(graph, built))
    return graph if built.is_plain else _positional(graph, built, eager)


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
