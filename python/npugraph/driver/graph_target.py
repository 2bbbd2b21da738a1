# SPDX-License-Identifier: Apache-2.0
"""The target "Graph": the last FX steps, the import into the C++ Graph, and its compile."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from npugraph import _C
from npugraph.artifact import Artifact, registry
from npugraph.defects import report_defect
from npugraph.driver import new_storages
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import Entry, OperatorGraph, Route, named_inputs
from npugraph.fx.corrections import correct_values
from npugraph.fx.decompose.collectives import finish_collectives
from npugraph.fx.decompose.expand import expand
from npugraph.fx.decompose.prepare import prepare
from npugraph.fx.decompose.release_weights import derive
from npugraph.fx.passes.pipeline import Notes
from npugraph.fx.source_lines import module_paths
from npugraph.fx.translate.importer import Imported, InputInfo, NestedCompiler, import_graph
from npugraph.options import backend_of
from npugraph.request import compile_request, nested_run_request


def prepare_graph(graph: OperatorGraph) -> None:
    graph.gm = prepare(graph.gm)


def correct_fake_values(graph: OperatorGraph) -> None:
    correct_values(graph.gm.graph)


def expand_operators(graph: OperatorGraph) -> None:
    graph.gm = expand(graph.gm)


def finish(graph: OperatorGraph) -> None:
    graph.gm = finish_collectives(graph.gm, of_gradients=graph.route is Route.BACKWARD)


def take_new_storages(graph: OperatorGraph) -> None:
    graph.new_storages = new_storages.take(graph.gm)


def derive_from_weights(graph: OperatorGraph) -> None:
    nodes = graph.gm.graph.find_nodes(op="placeholder")
    weights = graph.entry.weights
    if weights and len(nodes) == len(graph.entry.placeholders):
        sources = {nodes[i]: graph.inputs[i].source for i in weights}
        graph.released = derive(graph.gm, {nodes[i]: tensor for i, tensor in weights.items()}, sources)


@dataclasses.dataclass(frozen=True)
class Built:
    """A graph in the C++ core: what the importer found, and the artifact that was compiled of it."""

    imported: Imported
    core: _C.Artifact


def build(graph: OperatorGraph) -> Built:
    """Imports the graph into the core, and compiles it."""
    with graph.timed("import"):
        imported = _imported(graph)
    request = compile_request(graph.config, graph.name, graph.route.kind, imported.guards)
    return Built(imported, compile_imported(imported, request, graph.phases))


def _imported(graph: OperatorGraph) -> Imported:
    nested = NestedCompiler(functools.partial(_prepare_nested, graph), functools.partial(_compile_nested, graph))
    return import_graph(graph.gm, graph.name, graph.inputs, graph.strands, nested)


def compile_piece(
    entry: Entry, whole: Artifact, inputs: Mapping[str, InputInfo], piece: fx.GraphModule, piece_name: str
) -> Callable[..., Any] | None:
    """Compiles a piece of the graph of ``whole``, whose inputs are ``inputs`` by name. Returns None if the piece has to
    run operator by operator."""
    infos = [inputs.get(info.source, info) for info in named_inputs(piece)]
    graph = OperatorGraph(entry, piece, f"{whole.name}.{piece_name}", infos, Route.RECORDED)
    try:
        built = build(graph)
    except Exception as error:
        report_defect(graph.name, error, piece, backend_of(entry.config))
        return None
    if built.imported.objects is not None:
        return None
    whole.add_piece(built.core)
    run = built.core.callable(boxed=False)
    run.backend = backend_of(graph.config)
    run.owner = built.core
    run.fall_back_on(eagerly(piece))
    return run


def _prepare_nested(graph: OperatorGraph, gm: fx.GraphModule) -> fx.GraphModule:
    """Runs the steps before the import for a graph that control flow of another graph runs."""
    nested = dataclasses.replace(graph, gm=gm, route=Route.RECORDED)
    for step in graph.entry.target.nested_steps:
        step.run(nested)
    return nested.gm


def _compile_nested(graph: OperatorGraph, imported: Imported, name: str) -> Artifact:
    """Compiles a graph that control flow of another graph runs."""
    entry = graph.entry
    request = compile_request(entry.config, name, graph.route.kind)
    request.run = nested_run_request(entry.config)
    core = compile_imported(imported, request, {})
    paths = module_paths(imported.gm, entry.traced_module)
    artifact = Artifact(core, entry.config.as_dict(), imported.callables, {}, Notes(), paths, imported.nested)
    registry.add(artifact)
    entry.owners.add(artifact)
    return artifact


def compile_imported(imported: Imported, request: Any, phases: Mapping[str, float]) -> _C.Artifact:
    """Returns the C++ artifact. ``phases`` are those of the front end, in milliseconds."""
    try:
        return _C.Artifact.compile(imported.graph, request, imported.partitions, list(phases.items()))
    finally:
        # Tasks hold their callables themselves.
        for callable_id in imported.callables:
            _C.unregister_callable(callable_id)
