# SPDX-License-Identifier: Apache-2.0
"""The target "Graph": the last FX steps, the import into the C++ Graph, and its compile."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from npugraph import _C
from npugraph.artifact import Artifact, registry
from npugraph.defects import report_defect
from npugraph.driver import new_storages
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import Entry, Route, Work, named_inputs
from npugraph.fx.decompose.collectives import finish_collectives
from npugraph.fx.decompose.expand import expand
from npugraph.fx.decompose.prepare import prepare
from npugraph.fx.decompose.release_weights import derive
from npugraph.fx.module_paths import module_paths
from npugraph.fx.passes.pipeline import Notes
from npugraph.fx.translate.importer import Imported, InputInfo, NestedCompiler, import_graph
from npugraph.options import backend_of
from npugraph.request import compile_request, nested_run_request

Phases = list[tuple[str, float]]


def prepare_graph(work: Work) -> None:
    work.gm = prepare(work.gm)


def expand_operators(work: Work) -> None:
    work.gm = expand(work.gm)


def finish(work: Work) -> None:
    work.gm = finish_collectives(work.gm, of_gradients=work.route is Route.BACKWARD)


def take_new_storages(work: Work) -> None:
    work.new_storages = new_storages.take(work.gm)


def derive_from_weights(work: Work) -> None:
    nodes = work.gm.graph.find_nodes(op="placeholder")
    weights = work.entry.weights
    if weights and len(nodes) == len(work.entry.placeholders):
        sources = {nodes[i]: work.inputs[i].source for i in weights}
        work.released = derive(work.gm, {nodes[i]: tensor for i, tensor in weights.items()}, sources)


def import_into_core(work: Work) -> None:
    nested = NestedCompiler(functools.partial(_prepare_nested, work), functools.partial(_compile_nested, work))
    work.imported = import_graph(work.gm, work.name, work.inputs, work.strands, nested)


def compile_core(work: Work) -> None:
    request = compile_request(work.config, work.name, work.route.kind, work.imported.guards)
    work.core = compile_imported(work.imported, request, work.phases)


def compile_piece(
    entry: Entry, whole: Artifact, inputs: Mapping[str, InputInfo], piece: fx.GraphModule, piece_name: str
) -> Callable[..., Any] | None:
    """Compiles a piece of the graph of ``whole``, whose inputs are ``inputs`` by name. Returns None if the piece has to
    run operator by operator."""
    infos = [inputs.get(info.source, info) for info in named_inputs(piece)]
    work = Work(entry, piece, f"{whole.name}.{piece_name}", infos, Route.RECORDED)
    begun = time.perf_counter()
    try:
        import_into_core(work)
        work.phases.append(("import", (time.perf_counter() - begun) * 1e3))
        compile_core(work)
    except Exception as error:
        report_defect(work.name, error, piece, backend_of(entry.config))
        return None
    if work.imported.objects is not None:
        return None
    whole.add_piece(work.core)
    run = work.core.callable(boxed=False)
    run.backend = backend_of(work.config)
    run.owner = work.core
    run.fall_back_on(eagerly(piece))
    return run


def _prepare_nested(work: Work, gm: fx.GraphModule) -> fx.GraphModule:
    """Runs the steps before the import for a graph that control flow of another graph runs."""
    nested = dataclasses.replace(work, gm=gm, route=Route.RECORDED)
    for step in work.entry.nested_steps:
        step(nested)
    return nested.gm


def _compile_nested(work: Work, imported: Imported, name: str) -> Artifact:
    """Compiles a graph that control flow of another graph runs."""
    entry = work.entry
    request = compile_request(entry.config, name, work.route.kind)
    request.run = nested_run_request(entry.config)
    core = compile_imported(imported, request, [])
    paths = module_paths(imported.gm, entry.traced_module)
    artifact = Artifact(core, entry.config.as_dict(), imported.callables, {}, Notes(), paths, imported.nested)
    registry.add(artifact)
    entry.owners.add(artifact)
    return artifact


def compile_imported(imported: Imported, request: Any, phases: Phases) -> Any:
    """Returns the C++ artifact. ``phases`` are the phases of the front end."""
    try:
        return _C.Artifact.compile(imported.graph, request, imported.partitions, phases)
    finally:
        # Tasks hold their callables themselves.
        for callable_id in imported.callables:
            _C.unregister_callable(callable_id)
