# SPDX-License-Identifier: Apache-2.0
"""From a compiled graph to the function that is called: its artifact, and the wrappers around its Program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from npugraph import _C, host_device, request
from npugraph.artifact import Artifact, registry
from npugraph.driver import new_storages
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import CompiledGraph, Entry, OperatorGraph, Route
from npugraph.driver.graph_target import Built, compile_piece
from npugraph.driver.refusals import refuse_cut_scopes, warn_of_partitions
from npugraph.fx.source_lines import module_paths
from npugraph.fx.translate.importer import Imported
from npugraph.fx.translate.pieces import Pieces, is_apart
from npugraph.options import backend_of
from npugraph.stored.graphs import Parts


@dataclasses.dataclass(frozen=True)
class Call:
    """The facts that wrappers need. ``pieces`` run in place of the Program while a graph of npu is captured."""

    graph: OperatorGraph
    imported: Imported
    artifact: Artifact
    pieces: Pieces | None

    @property
    def positional(self) -> bool:
        """Whether the Program takes the graph's inputs one by one. Otherwise it takes a list of them."""
        return self.graph.route is Route.RECORDED and self.imported.objects is None


def compiled_function(graph: OperatorGraph, built: Built) -> CompiledGraph:
    """Returns ``built.core`` as a function. Its artifact lives as long as the function."""
    refuse_cut_scopes(built.core, graph.config, graph.gm)
    graph.released.carry_out(graph.name)
    artifact = _artifact(graph, built)
    imported = built.imported
    warn_of_partitions(imported.partitions, backend_of(graph.config))
    call = Call(graph, imported, artifact, _pieces(graph, artifact))
    run = _program(call)
    for wrap in WRAPPERS:
        run = wrap(run, call)
    artifact.needs_python = not isinstance(run, _C.Callable)
    parts = Parts(
        artifact,
        request.given(graph.config),
        boxed=not call.positional,
        pieces=call.pieces,
        only_pieces=imported.objects is not None,
        reason=_bound_to_process(call),
    )
    return CompiledGraph(run, parts)


def _bound_to_process(call: Call) -> str:
    """Returns why only this process can run what it compiled, or an empty text."""
    graph = call.graph
    if graph.released.sizes():
        return "option 'release_original_weights' puts what it computes from the weights of this process into the graph"
    if graph.new_storages:
        return "it gives inputs other memory, which Python does"
    for name in ("deadlock_check", "dump_tensor_data"):
        if getattr(graph.config, name).value:
            return f"option {name!r} looks at the runs of the process that compiled"
    if call.imported.objects is not None and call.pieces is None:
        return "some of its values are objects of Python, which pass only between pieces, and it does not run in pieces"
    return ""


def _artifact(graph: OperatorGraph, built: Built) -> Artifact:
    graph.notes.streams = graph.strands.streams if graph.strands else []
    imported = built.imported
    artifact = Artifact(
        built.core,
        graph.config.as_dict(),
        imported.callables,
        graph.released.sizes(),
        graph.notes,
        module_paths(graph.gm, graph.entry.traced_module),
        imported.nested,
    )
    registry.add(artifact)
    has_python = bool(imported.partitions or imported.object_inputs)
    graph.observer.compiled(artifact, graph.gm, [info.source for info in graph.inputs], has_python)
    return artifact


def _pieces(graph: OperatorGraph, artifact: Artifact) -> Pieces | None:
    """The pieces of a graph that has operators which must be called between pieces, such as operators of other
    libraries."""
    if not any(map(is_apart, graph.gm.graph.nodes)):
        return None
    names = (node.name for node in graph.gm.graph.find_nodes(op="placeholder"))
    inputs = dict(zip(names, graph.inputs, strict=True))
    return Pieces(graph.gm, functools.partial(compile_piece, graph.entry, artifact, inputs))


def _program(call: Call) -> Any:
    """Returns the C++ function that runs the Program."""
    graph, artifact = call.graph, call.artifact
    run = artifact.core.callable(boxed=not call.positional)
    run.owner = artifact
    run.options = request.given(graph.config)
    run.backend = backend_of(graph.config)
    artifact.runs_as(run)
    kinds: list[str] = []
    if graph.route is not Route.BACKWARD:
        objects = dict(call.imported.object_inputs)
        kinds = [info.kind for i, info in enumerate(graph.inputs) if i not in objects]
    tie_to_model(graph.entry, kinds, artifact, run)
    if artifact.core.writes_inputs() or call.imported.names_places:
        graph.entry.depends_on_places = True
        if call.positional:
            run.fall_back_on(eagerly(graph.entry.gm))
    return run


def tie_to_model(entry: Entry, kinds: Sequence[str], artifact: Artifact, run: Any) -> None:
    """Makes an artifact one of ``entry``. These sleep when the model is gone that one of their functions last ran with.
    ``run`` is such a function if ``kinds`` says of which kinds its inputs are."""
    entry.owners.add(artifact)
    # A cache with static addresses may outlive the model, so static inputs count only if there is no parameter.
    of_model = _positions(kinds, "parameter") or _positions(kinds, "static")
    if of_model:
        entry.owners.watch(run, of_model)


def _positions(kinds: Sequence[str], kind: str) -> list[int]:
    return [i for i, found in enumerate(kinds) if found == kind]


def _in_pieces_where_captured(run: Any, call: Call) -> Callable[..., Any]:
    pieces, imported = call.pieces, call.imported
    if pieces is None:
        return run
    if call.positional:
        return lambda *args: pieces(*args) if host_device.is_captured() else run(*args)

    def boxed(args: list[Any]) -> Any:
        if not host_device.is_captured():
            return run(args)
        inputs = list(args)
        args.clear()
        for index, name in imported.object_inputs:  # _with_objects has taken them out
            inputs.insert(index, imported.objects.values[name])
        return pieces(*inputs)

    return boxed_call(boxed)


def _observed(run: Any, call: Call) -> Callable[..., Any]:
    return call.graph.observer.watch(run, call.artifact)


def _checked_for_deadlocks(run: Any, call: Call) -> Callable[..., Any]:
    if not call.graph.config.deadlock_check.value:
        return run
    from npugraph.deadlock.capture import checked

    return checked(run, call.artifact)


def _with_objects(run: Any, call: Call) -> Callable[..., Any]:
    """Takes inputs that no task can carry out of the list of inputs and keeps them where Python tasks find them. Puts
    outputs of this kind into the result."""
    imported = call.imported
    if imported.objects is None:
        return run

    def boxed(args: list[Any]) -> Any:
        with imported.objects.of_one_run() as values:
            for index, name in reversed(imported.object_inputs):
                values[name] = args.pop(index)
            results = list(run(args))
            for index, name in imported.object_outputs:
                results[index] = values.get(name, results[index])  # pieces return the object itself
            return results

    return (lambda *args: boxed(list(args))) if call.graph.route is Route.RECORDED else boxed_call(boxed)


def _with_new_storages(run: Any, call: Call) -> Callable[..., Any]:
    places = call.graph.new_storages
    return boxed_call(new_storages.giving(run, places)) if places else run


def boxed_call(run: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that takes a list of inputs, which it empties."""
    run._boxed_call = True  # for AOTAutograd
    return run


def below_autocast(run: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``run``, the function of a recorded graph that calls its operators. The recorder has written the casts of
    autocast down, so a call adds none. AOTAutograd sees to that for the functions that it gets."""

    def call(*args: Any) -> Any:
        with torch._C._DisableAutocast():
            return run(*args)

    return call


# From the innermost to the outermost.
WRAPPERS: tuple[Callable[[Any, Call], Callable[..., Any]], ...] = (
    # It is nearest to the Program, because the pieces take the place of the Program.
    _in_pieces_where_captured,
    # These two observe the calls of the Program or of its pieces.
    _observed,
    _checked_for_deadlocks,
    # Behind them, so that the observed calls have no objects in their inputs.
    _with_objects,
    # It comes last, because places of inputs are those of the graph.
    _with_new_storages,
)
