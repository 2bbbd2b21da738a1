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
from npugraph.driver.entry import Route, Work
from npugraph.driver.steps import Step, Target
from npugraph.options import backend_of

FX_STEPS = (
    Step("places", fx_steps.give_places, "AOTAutograd describes its own graph, before passes change it."),
    Step("sections", fx_steps.mark_streams_and_scopes, "Passes ask whether nodes are of one stream and scope."),
    Step("passes", fx_steps.run_fx_passes, "They see operators as users wrote them; fx/passes/pipeline.py lists them."),
    Step("scope keys", fx_steps.settle_scope_keys, "Passes match scopes as users wrote them."),
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
        *_OPERATORS,
        Step("new storages", graph_target.take_new_storages, "What they are made of are outputs from here on."),
        Step("weights", graph_target.derive_from_weights, "Constants are computed by the operators that remain."),
        Step("sections", fx_steps.mark_streams_and_scopes, "New nodes are in sections, too."),
        Step("import", graph_target.import_into_core, "The FX graph does not change any more."),
    ),
    _OPERATORS,
    graph_target.compile_core,  # continues in src/core/compiler/pipeline.cc
    compiled_function,
)


def compile_graph(work: Work) -> Callable[..., Any]:
    """Returns a compiled function. For a recorded graph it takes the inputs one by one, otherwise a list of them, which
    it empties."""
    target = work.entry.target or GRAPH
    work.entry.nested_steps = [step.run for step in target.nested_steps]
    work.observer = work.entry.compiles.observer(work.name, work.route.phase)
    # Constants are real tensors, so the front end's fake tensor mode must not intercept operators on them.
    with _disable_current_modes():
        if fx_steps.dumps_original(work.config):
            fx_steps.add_dumps(work)
            return _operator_by_operator(work, labelled("fx_run_eagerly", work.gm.forward))
        work.phases.append((work.route.front_end, (time.perf_counter() - work.entry.started) * 1e3))
        _run("fx", FX_STEPS, work)
        try:
            _run("import", target.steps, work)
            target.compile(work)
        except TorchDynamoException:
            raise  # it asks the front end to start again
        except Exception as error:
            report_defect(work.name, error, work.gm, backend_of(work.config))
            return _operator_by_operator(work, work.gm.forward)
        return target.function(work)


def _run(phase: str, steps: Sequence[Step], work: Work) -> None:
    begun = time.perf_counter()
    for step in steps:
        step.run(work)
    work.phases.append((phase, (time.perf_counter() - begun) * 1e3))


def _operator_by_operator(work: Work, forward: Callable[..., Any]) -> Callable[..., Any]:
    if work.route is Route.RECORDED:
        return below_autocast(forward)
    run = make_boxed_func(forward)
    return boxed_call(new_storages.giving(run, work.new_storages)) if work.new_storages else run
