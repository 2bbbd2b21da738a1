# SPDX-License-Identifier: Apache-2.0
"""The target "GE model" of the compile driver: a graph of operators becomes one of Ascend IR, which the engine runs, or
several of them with eager operators between them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from npugraph import _C, ascend_findings
from npugraph.artifact import Artifact
from npugraph.driver import graph_target
from npugraph.driver.calls import below_autocast, boxed_call, tie_to_model
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import CompiledGraph, OperatorGraph, Route, Step, Target
from npugraph.fx.translate.importer import InputInfo
from npugraph.ge.backend import ascend_rules
from npugraph.ge.backend.concrete_graph import GeConcreteGraph, next_name
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import Missing, MissingConverters, find
from npugraph.ge.dumps import values
from npugraph.ge.executor import LoadStream
from npugraph.ge.fx import graph_forms, summary
from npugraph.ge.fx.fold_views import fold_views
from npugraph.ge.fx.graph import Built, build
from npugraph.ge.fx.partition import Partition, convert
from npugraph.ge.fx.parts import part_name
from npugraph.ge.fx.scopes import forget_scopes, read_scopes
from npugraph.ge.gears import Gears, of_inputs
from npugraph.log import logger
from npugraph.request import compile_request


def _tied(graph: OperatorGraph, built: Built, inputs: Sequence[InputInfo]) -> Callable[[Artifact, Any], None]:
    """Returns a function that ties an artifact of the model to it, with its C++ function. ``inputs`` describes those of
    the graph of operators that ``built`` was made of."""
    kinds = [] if graph.route is Route.BACKWARD else [inputs[place].kind for place in built.fed]
    return functools.partial(tie_to_model, graph.entry, kinds)


def written_inputs(graph: OperatorGraph) -> list[int]:
    """Which inputs the graph writes, as positions among its inputs."""
    copies = graph.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    written = {copy.args[0] for copy in copies}
    return [i for i, node in enumerate(graph.gm.graph.find_nodes(op="placeholder")) if node in written]


def eager_while_overlapping(run: Callable[..., Any], graph: OperatorGraph) -> Callable[..., Any]:
    """Returns ``run``, the function of a graph of which no part sees all inputs, for calls whose written inputs overlap
    no others. A call of a backward graph whose inputs do is an error, because the program does not have this graph."""
    written = written_inputs(graph)
    if not written:
        return run
    if graph.route is Route.RECORDED:
        eager = eagerly(graph.entry.gm)
        return lambda *args: eager("overlapping_inputs", *args) if _overlap(args, written) else run(*args)
    if graph.route is not Route.BACKWARD:
        graph.entry.depends_on_places = True  # so that the error is caught around AOTAutograd

    def boxed(args: list[Any]) -> Any:
        if _overlap(args, written):
            raise _C.InputsOverlap(
                f"the {graph.route.phase} graph {graph.name!r} writes an input that overlaps another one, which was "
                "not so at compile time; give the function a clone of one of them"
            )
        return run(args)

    return boxed_call(boxed)


def _overlap(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    """Whether an input that is written overlaps another one. Takes O(n log n) of time, in each call."""
    is_written = [False] * len(inputs)
    for index in written:
        is_written[index] = True
    spans = sorted((*_span(value), is_written[i]) for i, value in enumerate(inputs) if isinstance(value, torch.Tensor))
    last_end = last_written_end = 0  # of the spans that begin before the next one
    for begin, end, writes in spans:
        if begin < (last_end if writes else last_written_end):
            return True
        last_end = max(last_end, end)
        if writes:
            last_written_end = max(last_written_end, end)
    return False


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses between which a strided tensor lies; an empty range for one without elements or strides."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return 0, 0
    begin = tensor.data_ptr()
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def in_parts(graph: OperatorGraph, partition: Partition, config: CompilerConfig, gears: Gears | None) -> Compiling:
    """The function of a graph that was converted to ``partition``."""
    gm = partition.gm
    is_recorded = graph.route is Route.RECORDED
    for node in gm.graph.nodes:
        node.meta.clear()  # what runs is its code
    run = below_autocast(gm.forward) if is_recorded else gm.forward
    load_streams: dict[torch.device, LoadStream] = {}
    models: list[tuple[GeConcreteGraph, NodeOf]] = []
    for index, converted in enumerate(partition.parts):
        part = _part(converted.built, converted.part.inputs, graph, config, load_streams, gears)
        setattr(gm, part_name(index), function_of(converted.built, part))
        models.append((part, converted.node_of))
    return Compiling(eager_while_overlapping(run, graph), models)


def _part(
    built: Built,
    inputs: Sequence[InputInfo],
    whole: OperatorGraph,
    config: CompilerConfig,
    load_streams: dict[torch.device, LoadStream],
    gears: Gears | None,
) -> GeConcreteGraph:
    return GeConcreteGraph(
        config,
        graph=built.graph,
        request=_request(whole, built.graph.name, gears),
        noted=_tied(whole, built, inputs),
        observer=whole.observer,
        load_streams=load_streams,
        gears=gears,
        expected=built.outputs.specs,
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


class OneByOne(NamedTuple):
    """A graph of which all operators run eagerly, because the user wants to look at them."""

    gm: fx.GraphModule


# A graph of GE, or several of them with eager operators between them, or none.
Converted = Built | Partition | OneByOne


def ge_target(config: CompilerConfig, *, at_once: bool = False) -> Target[Converted]:
    """The target with the options of ``config``. The engine compiles graphs at their first calls. With ``at_once`` it
    compiles one that has no eager parts when its function is made."""
    return Target(
        "GE model",
        # Operators of Ascend are converted whole, so they are not expanded.
        (
            Step("prepare", graph_target.prepare_graph, "Converters know no effects and no writes in wrappers."),
            Step("correct", graph_target.correct_fake_values, "Parts of the graph take over values of its nodes."),
            Step("scopes", functools.partial(_read_scopes, config), "New nodes are in scopes, too."),
            Step("views", functools.partial(_fold_views, config), "Scopes keep views apart."),
        ),
        (),
        functools.partial(_convert, config),
        functools.partial(_function, config, at_once),
        lambda operator: find(operator) is not None,
        of_inputs,
        graph_forms.rules,
    )


def _gears(config: CompilerConfig, graph: OperatorGraph) -> Gears | None:
    policy = config.inference_config.dynamic_gears_merge_policy.value
    return Gears.of(graph.entry.placeholders, graph.entry.noted, policy)


def _read_scopes(config: CompilerConfig, graph: OperatorGraph) -> None:
    if ascend_findings.are_wanted() and not graph.entry.noted:
        ascend_findings.add(ascend_rules.of_scopes(graph.gm))
    if graph.route is Route.BACKWARD:  # its marks have no order that the program defined
        forget_scopes(graph.gm)
    else:
        graph.strands = read_scopes(graph.gm, single_stream=config.ge_config.enable_single_stream.value)


def _fold_views(config: CompilerConfig, graph: OperatorGraph) -> None:
    if config.experimental_config.enable_view_optimize.value:
        fold_views(graph.gm.graph)


def _convert(config: CompilerConfig, graph: OperatorGraph, refused: Mapping[fx.Node, str] | None = None) -> Converted:
    if (gears := _gears(config, graph)) is not None:
        gears.drop_assertions(graph.gm.graph)
    if ascend_findings.are_wanted() and refused is None:
        ascend_findings.count_graph()
        ascend_findings.add(ascend_rules.of_operators(graph.gm, graph.name, graph.inputs))
    debug = config.debug
    if debug.fx_summary.type.value and refused is None:
        _sum_up(config, graph)
    if debug.data_dump.type.value or (debug.fx_summary.type.value and debug.fx_summary.skip_compile.value):
        return OneByOne(graph.gm)
    return convert(
        graph.gm,
        graph.inputs,
        iter(next_name, None),
        functools.partial(build, is_run=True, strands=graph.strands),
        in_parts=config.debug.missing_converters.value != "error",
        boxed=graph.route is not Route.RECORDED,
        refused=refused,
    )


def _sum_up(config: CompilerConfig, graph: OperatorGraph) -> None:
    """Writes the summary of a graph."""
    missing: Sequence[Missing] = ()
    try:
        build(graph.gm, graph.name, graph.inputs, is_run=True)
    except MissingConverters as error:
        missing = error.missing
    rows = summary.summarise(graph.gm.graph, {entry.node for entry in missing})
    path = summary.write(rows, config.debug.fx_summary.path.value)
    logger.info("the operators of graph %s are summed up in %s", graph.name, path)


# Finds the node of the graph of operators that an operator of a graph of GE was made for, by its name.
NodeOf = Callable[[str], fx.Node | None]


class Compiling(NamedTuple):
    """A function, and the graphs of GE that it calls."""

    run: Callable[..., Any]
    models: Sequence[tuple[GeConcreteGraph, NodeOf]]


class _Late:
    """The function of a graph of operators, which the first call compiles. Thread-safe."""

    def __init__(self, compiled: Callable[[], Callable[..., Any]]) -> None:
        self.run: Callable[..., Any] | None = None  # None as long as it is not compiled
        self._compiled: Callable[[], Callable[..., Any]] | None = compiled
        self._lock = threading.Lock()

    def compile(self) -> Callable[..., Any]:
        """Returns the function. If it raises an error, the next call tries again."""
        with self._lock:
            if self._compiled is not None:
                self.run = self._compiled()
                self._compiled = None  # it holds the compile
        assert self.run is not None
        return self.run


def _function(config: CompilerConfig, at_once: bool, graph: OperatorGraph, converted: Converted) -> CompiledGraph:
    """The function of a graph of operators. The first call compiles all graphs of GE before any of them runs, so that
    an error leaves the inputs as they are. Operators that the engine refuses then run eagerly."""
    if isinstance(converted, Partition):
        logger.warning("%s", converted.report)
    gears = _gears(config, graph)
    late = _Late(functools.partial(_compiled, config, graph, gears, _compiling(config, graph, converted, gears)))
    placeholders = graph.gm.graph.find_nodes(op="placeholder")
    if at_once and isinstance(converted, Built):
        late.compile()

    def call(*args: Any) -> Any:
        return (late.run or late.compile())(*args)

    boxed = graph.route is not Route.RECORDED
    run = call if gears is None else gears.checked(call, placeholders, boxed=boxed)
    return CompiledGraph(boxed_call(run) if boxed else run)


def _compiled(
    config: CompilerConfig, graph: OperatorGraph, gears: Gears | None, compiling: Compiling
) -> Callable[..., Any]:
    """Compiles graphs of GE, and converts ``graph`` again without the operators that the engine refuses. Raises
    ``MissingConverters`` if the graph may not be cut."""
    refused: dict[fx.Node, str] = {}
    converted: Converted | None = None
    while more := _compile(compiling, refused):
        refused |= more
        converted = _convert(config, graph, refused)
        compiling = _compiling(config, graph, converted, gears)
    if isinstance(converted, Partition):
        logger.warning("%s", converted.report)
    return compiling.run


def _compile(compiling: Compiling, refused: Mapping[fx.Node, str]) -> dict[fx.Node, str]:
    """Returns the first refusals of the engine in all graphs, with the reasons. Raises that of an operator which no
    node, or one that is refused already, has become."""
    more: dict[fx.Node, str] = {}
    for model, node_of in compiling.models:
        try:
            model.compile()
        except _C.OperatorRefused as error:
            node = node_of(error.node)
            if node is None or node in refused:
                raise
            more[node] = f"the engine refuses it: {error}"
    return more


def _compiling(config: CompilerConfig, graph: OperatorGraph, converted: Converted, gears: Gears | None) -> Compiling:
    if isinstance(converted, OneByOne):
        return Compiling(_one_by_one(graph, converted.gm, config), ())
    compiling = in_parts if isinstance(converted, Partition) else _whole
    return compiling(graph, converted, config, gears)


def _one_by_one(graph: OperatorGraph, gm: fx.GraphModule, config: CompilerConfig) -> Callable[..., Any]:
    dump = config.debug.data_dump

    def run(*args: Any) -> Any:
        return values.DumpingInterpreter(gm, dump.path.value, dump.filter.value).run(*args)

    eager = run if dump.type.value else gm.forward
    if graph.route is Route.RECORDED:
        return eager_while_overlapping(below_autocast(eager), graph)
    return eager_while_overlapping(boxed_call(lambda args: eager(*_taken(args))), graph)


def _taken(args: list[Any]) -> list[Any]:
    taken = list(args)
    args.clear()
    return taken


def _request(graph: OperatorGraph, name: str, gears: Gears | None) -> Any:
    """What the compiler is asked for. The plans of all gears are kept."""
    request = compile_request(graph.config, name, graph.route.kind)
    if gears is not None:
        calls = request.run.calls
        calls.max_instances = max(calls.max_instances, len(gears.combinations))
    return request


def _whole(graph: OperatorGraph, built: Built, config: CompilerConfig, gears: Gears | None) -> Compiling:
    """The function of a graph that was converted to one graph of GE."""
    is_recorded = graph.route is Route.RECORDED
    eager = eagerly(graph.entry.gm) if is_recorded else None
    if graph.route in (Route.INFERENCE, Route.FORWARD) and written_inputs(graph):
        graph.entry.depends_on_places = True
    tie = _tied(graph, built, graph.inputs)
    values = [node.meta.get("val") for node in graph.gm.graph.find_nodes(op="placeholder")]
    places = gears.places(values) if gears is not None else None

    def noted(artifact: Artifact, function: Any) -> None:
        artifact.outputs = built.outputs.texts([info.source for info in graph.inputs])
        if gears is not None and places is not None:
            artifact.condition = gears.condition(places, [info.source for info in graph.inputs])
        tie(artifact, function)

    model = GeConcreteGraph(
        config,
        graph=built.graph,
        request=_request(graph, built.graph.name, gears),
        boxed=not is_recorded,
        fallback=eager if built.is_plain else None,
        noted=noted,
        observer=graph.observer,
        gears=gears,
        expected=built.outputs.specs,
    )
    run: Callable[..., Any] = model
    if not built.is_plain:
        run = _boxed(model, built) if eager is None else _positional(model, built, eager)
    return Compiling(run, [(model, built.origins.get)])


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
