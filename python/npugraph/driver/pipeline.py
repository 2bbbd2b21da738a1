# SPDX-License-Identifier: Apache-2.0
"""The steps from a graph of ATen operators to a compiled function, in order, each with its reason.

``routes`` makes such graphs from Dynamo's graph. Users can see and extend the FX steps; the steps after them belong to
the target. An error of an FX step is for the user to mend, so it is raised. An error in the target is a defect of
npugraph: a warning says so, and the graph runs operator by operator. This ends with ``compile_graph``: what a target
leaves for the first call, as GE models leave their compile, raises its errors from that call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.exc import TorchDynamoException
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._python_dispatch import _disable_current_modes

from npugraph.defects import report_defect
from npugraph.driver import fx_steps, graph_target, new_storages
from npugraph.driver.calls import below_autocast, boxed_call, compiled_function
from npugraph.driver.eager_fallbacks import labelled
from npugraph.driver.entry import CompiledGraph, OperatorGraph, Route, Step, Target
from npugraph.options import backend_of

FX_STEPS = (
    Step("places", fx_steps.give_places, "AOTAutograd describes its own graph, before passes change it."),
    Step("sections", fx_steps.mark_streams_and_scopes, "Passes ask whether nodes are of one stream and scope."),
    Step("passes", fx_steps.run_fx_passes, "They see operators as users wrote them; fx/passes/pipeline.py lists them."),
    Step("tensor dumps", fx_steps.add_dumps_after_passes, "Files name the results that the passes left."),
)

# After these steps the compiler knows every operator of the graph.
_OPERATORS = (
    Step("prepare", graph_target.prepare_graph, "The other steps know no effects and no writes in wrappers."),
    Step("expand", graph_target.expand_operators, "Parts of operators fuse with what is around them."),
    Step("collectives", graph_target.finish, "Some are parts; waits speak of storages, which no Graph has."),
)

GRAPH = Target(
    "Graph",
    (
        Step("scope keys", fx_steps.settle_scope_keys, "Passes match scopes as users wrote them."),
        *_OPERATORS,
        Step("new storages", graph_target.take_new_storages, "What they are made of are outputs from here on."),
        Step("weights", graph_target.derive_from_weights, "Constants are computed by the operators that remain."),
        Step("sections", fx_steps.mark_streams_and_scopes, "New nodes are in sections, too."),
    ),
    _OPERATORS,
    graph_target.build,  # continues in src/core/compiler/pipeline.cc
    compiled_function,
)


def compile_graph(graph: OperatorGraph) -> CompiledGraph:
    """Returns a compiled function. For a recorded graph it takes the inputs one by one, otherwise a list of them, which
    it empties."""
    target = graph.entry.target
    graph.observer = graph.entry.compiles.observer(graph.name, graph.route.phase)
    # Constants are real tensors, so the front end's fake tensor mode must not intercept operators on them.
    with _disable_current_modes():
        if fx_steps.dumps_original(graph.config):
            fx_steps.add_dumps(graph)
            return _operator_by_operator(graph, labelled("fx_run_eagerly", graph.gm.forward))
        graph.phases[graph.route.front_end] = (time.perf_counter() - graph.entry.started) * 1e3
        with graph.timed("fx"):
            _run(FX_STEPS, graph)
        try:
            with graph.timed("import"):
                _run(target.steps, graph)
            built = target.build(graph)
        except TorchDynamoException:
            raise  # it asks the front end to start again
        except Exception as error:
            report_defect(graph.name, error, graph.gm, backend_of(graph.config))
            return _operator_by_operator(graph, graph.gm.forward)
        return target.function(graph, built)


def _run(steps: Sequence[Step], graph: OperatorGraph) -> None:
    for step in steps:
        step.run(graph)


def _operator_by_operator(graph: OperatorGraph, forward: Callable[..., Any]) -> CompiledGraph:
    if graph.route is Route.RECORDED:
        return CompiledGraph(below_autocast(forward))
    run = make_boxed_func(forward)
    places = graph.new_storages
    return CompiledGraph(boxed_call(new_storages.giving(run, places)) if places else run)
