# SPDX-License-Identifier: Apache-2.0
"""The target "GE model" of the compile driver: a graph of operators becomes one of Ascend IR, which the engine runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npugraph.driver import graph_target
from npugraph.driver.calls import boxed_call
from npugraph.driver.entry import Route, Work
from npugraph.driver.steps import Step, Target
from npugraph.ge.backend.concrete_graph import GeConcreteGraph, next_name
from npugraph.ge.backend.executor import TorchNpuGraph
from npugraph.ge.config import CompilerConfig, ge_options
from npugraph.ge.fx.graph import Built, build
from npugraph.request import compile_request


def ge_target(config: CompilerConfig) -> Target:
    """The target with the options of ``config``."""

    def function(work: Work) -> Callable[..., Any]:
        return _function(work, config)

    return Target(
        "GE model",
        (
            Step("prepare", graph_target.prepare_graph, "Converters know no effects and no writes in wrappers."),
            Step("convert", _convert, "Operators of Ascend are converted whole, so before they are expanded."),
        ),
        (),
        lambda work: None,  # the engine compiles at the first call
        function,
    )


def _convert(work: Work) -> None:
    work.imported = build(work.gm, next_name(), work.inputs, TorchNpuGraph)


def _function(work: Work, config: CompilerConfig) -> Callable[..., Any]:
    built: Built = work.imported
    on_device = bool(built.graph.attr["_executor_type"].i)
    local_options, global_options = ge_options(config, on_device=on_device)
    request = compile_request(work.config, built.graph.name, work.route.kind)
    takes_all = len(built.fed) == len(work.inputs)
    is_direct = takes_all and built.outputs.is_plain
    graph = GeConcreteGraph(
        built.graph, request, local_options, global_options, boxed=is_direct and work.route is not Route.RECORDED
    )
    if is_direct:
        return graph if work.route is Route.RECORDED else boxed_call(graph)

    def call(*inputs: Any) -> Any:
        return built.outputs(inputs, graph(*[inputs[place] for place in built.fed]))

    if work.route is Route.RECORDED:
        return call

    def boxed(args: list[Any]) -> Any:
        inputs = list(args)
        args.clear()
        return call(*inputs)

    return boxed_call(boxed)
