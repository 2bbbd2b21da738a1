# SPDX-License-Identifier: Apache-2.0
"""The target "GE model" of the compile driver: a graph of operators becomes one of Ascend IR, which the engine runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npugraph import _C
from npugraph.artifact import Artifact
from npugraph.driver import graph_target
from npugraph.driver.calls import boxed_call, watch_model
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import Route, Work
from npugraph.driver.steps import Step, Target
from npugraph.ge.backend.concrete_graph import GeConcreteGraph, next_name
from npugraph.ge.backend.overlaps import while_apart, written_inputs
from npugraph.ge.backend.parts import build_computed, in_parts
from npugraph.ge.config import CompilerConfig
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
    )


def _convert(work: Work, config: CompilerConfig) -> None:
    if config.debug.missing_converters.value == "error":
        work.imported = build_computed(work.gm, next_name(), work.inputs)
    else:
        is_boxed = work.route is not Route.RECORDED
        work.imported = convert(work.gm, work.inputs, iter(next_name, None), build_computed, boxed=is_boxed)


def _function(work: Work, config: CompilerConfig) -> Callable[..., Any]:
    if isinstance(work.imported, Partition):
        return while_apart(in_parts(work, config), work)
    built: Built = work.imported
    request = compile_request(work.config, built.graph.name, work.route.kind)
    noted = _belongs_to_model(work, built)
    takes_all = len(built.fed) == len(work.inputs)
    is_direct = takes_all and built.outputs.is_plain
    is_recorded = work.route is Route.RECORDED
    eager = eagerly(work.entry.gm) if is_recorded else None
    if work.route in (Route.INFERENCE, Route.FORWARD) and written_inputs(work):
        work.entry.depends_on_places = True
    if is_direct:
        graph = GeConcreteGraph(
            config, graph=built.graph, request=request, boxed=not is_recorded, fallback=eager, noted=noted
        )
        return graph if is_recorded else boxed_call(graph)
    graph = GeConcreteGraph(config, graph=built.graph, request=request, noted=noted)

    def call(*inputs: Any) -> Any:
        try:
            results = graph(*[inputs[place] for place in built.fed])
        except _C.InputsOverlap:  # nothing has run
            if eager is None:
                raise
            return eager("overlapping_inputs", *inputs)
        return built.outputs(inputs, results)

    if is_recorded:
        return call

    def call_boxed(args: list[Any]) -> Any:
        inputs = list(args)
        args.clear()
        return call(*inputs)

    return boxed_call(call_boxed)


def _belongs_to_model(work: Work, built: Built) -> Callable[[Artifact, Any], None]:
    """Returns a function that ties the artifact of ``built`` to the model: it sleeps when the model is gone."""
    entry, kinds = work.entry, [work.inputs[place].kind for place in built.fed]
    is_backward = work.route is Route.BACKWARD

    def tie(artifact: Artifact, function: Any) -> None:
        entry.owners.add(artifact)
        if not is_backward:
            watch_model(function, entry, kinds)

    return tie
