# SPDX-License-Identifier: Apache-2.0
"""A graph of GE as a function. It is compiled at its first call: changes of the graph until then count."""

from __future__ import annotations

import collections
import functools
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from npugraph.artifact import Artifact, registry
from npugraph.driver.refusals import refuse_cuts
from npugraph.facade import NotHereError
from npugraph.fx.compile_observer import NO_OBSERVER, CompileObserver
from npugraph.ge import dumps, tuning
from npugraph.ge.config import CompilerConfig, ge_options, npugraph_options
from npugraph.ge.config.effects import settings_of_torch
from npugraph.ge.data_types import TensorSpec
from npugraph.ge.dumps.files import normalise_and_show
from npugraph.ge.executor import LoadStream, check_results, start_engine
from npugraph.ge.fx.scopes import strict_scopes
from npugraph.ge.gears import Gears
from npugraph.ge.graph import GeGraph, Tensor
from npugraph.ge.normalise import data_inputs, inputs_of, normalise
from npugraph.log import EVENT, logger
from npugraph.options import parse
from npugraph.request import compile_request

_ONE_BY_ONE = (
    "the compiler converts an FX graph as a whole; within context(), builders of torchair._ge_concrete_graph.ge_apis "
    "add operators"
)
# Names of Ascend's class that are not here, with the reasons.
_ABSENT = {
    "codegen": "a graph is called as a function, without generated Python; dump('graph.py') writes what builds it",
    "converter_context": "converters get all that they need as arguments",
    "export": "torchair.dynamo_export writes a model, and graph.SerializeToString() returns that of this graph",
    **dict.fromkeys(("parse_input", "parse_node", "parse_output", "parse_symlist"), _ONE_BY_ONE),
    "update_graph_with_runtime": "a graph does not depend on the inputs of a call; it serves all sizes",
}

_numbers = itertools.count(1)


def next_number() -> int:
    """The number of the next graph of this process: 1, 2, ..."""
    return next(_numbers)


def next_name() -> str:
    """The name of the next graph of this process: graph_1, graph_2, ..."""
    return f"graph_{next_number()}"


def initialize_graph_engine(global_compile_options: Mapping[str, str] | None = None) -> None:
    """Starts the engine with these options of the process. Those that are not given have their defaults, or are what
    torch and torch_npu are set to at the first start; other settings later are no error, because they are no options,
    and the current device differs by thread. Raises what ``start`` raises."""
    _, defaults = ge_options(CompilerConfig())
    start_engine({**defaults, **(global_compile_options or {})}, settings_of_torch())


class GeConcreteGraph:
    """A new graph of that name, or ``graph``, with the options of its compile. Called with the inputs of the graph, it
    returns its results. The first call starts the engine, loads and compiles. Each call is an event of the log. Calls
    are thread-safe.

    ``request`` is a ``_C.CompileRequest``; without it, the one that ``config`` asks for. A ``boxed`` function takes a
    list of the inputs, which it empties, any other one takes them one by one. ``fallback`` is called with a reason and
    the inputs, in place of the graph, if an input that the graph writes overlaps another one. ``noted`` is called once,
    with the artifact and the C++ function of the inputs. ``observer`` sees the graph before and after its passes.
    Graphs with the same ``load_streams``, which has one for each device of npu, warn once of another stream. ``gears``
    are those of its unknown sizes. ``expected`` are its results by the FX graph; others are an error of the compile.
    The graph outlives its compile, because users look at ``graph`` and ``dump`` after calls; it is small, because
    weights are inputs of graphs of torch.compile."""

    def __init__(
        self,
        config: CompilerConfig,
        name: str | None = None,
        *,
        graph: GeGraph | None = None,
        request: Any = None,
        boxed: bool = False,
        fallback: Callable[..., Any] | None = None,
        noted: Callable[[Artifact, Any], None] | None = None,
        observer: CompileObserver = NO_OBSERVER,
        load_streams: dict[torch.device, LoadStream] | None = None,
        gears: Gears | None = None,
        expected: Sequence[TensorSpec] = (),
    ) -> None:
        self._config = config
        self._graph = GeGraph(name=name) if graph is None else graph
        self._request = request
        self._options: dict[str, Any] = {}  # of the backend, from the load on
        self._boxed = boxed
        self._fallback = fallback
        self._noted = noted
        self._observer = observer
        self._gears = gears
        self._expected = expected
        self._load_streams = {} if load_streams is None else load_streams
        self._is_shown = False
        self._lock = threading.Lock()
        self._function: Any = None
        self._compiled_at: tuple[int, int] | None = None  # its time and duration in ns, until a call has told them

    @property
    def graph(self) -> GeGraph:
        return self._graph

    @property
    def config(self) -> CompilerConfig:
        return self._config

    @property
    def is_compiled(self) -> bool:
        return self._function is not None

    @property
    def is_dynamic(self) -> bool:
        """Whether a size of an input is unknown before a call."""
        sizes = (dim for op in inputs_of(self._graph) for desc in op.output_desc for dim in desc.shape.dim)
        return any(dim < 0 for dim in sizes)

    @property
    def outputs(self) -> list[Tensor]:
        """The results of the graph, in order; empty as long as it has no ``NetOutput``. A result without an element
        type gets DT_FLOAT with the passes; the tensors that a call returns have the types that the engine finds."""
        operators = {op.name: op for op in self._graph.op}
        sources = [source for op in self._graph.op if op.type == "NetOutput" for source in data_inputs(op)]
        places = [source.rpartition(":") for source in sources]
        return [Tensor(operators[name], int(index)) for name, _, index in places]

    @property
    def should_auto_tune(self) -> bool:
        """Whether the first call tunes the graph: if ``aoe_config.aoe_mode`` asks for it and sizes are known."""
        return self._config.aoe_config.aoe_mode.value is not None and not self.is_dynamic

    def auto_tune(self, example_inputs: Sequence[Any] = (), stream: Any = None) -> None:
        """Measures the plans of products of the graph, which is loaded and has not run, and keeps the fastest ones. A
        file in ``aoe_config.work_path`` says what was measured."""
        if products := self._graph.auto_tune(example_inputs, stream):
            path = tuning.write(self._graph.name, products, self._config.aoe_config.work_path.value)
            logger.info("what tuning of graph %s measured is in %s", self._graph.name, path)

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            raise NotHereError(f"GeConcreteGraph.{name} is not here: {_ABSENT[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def optimize_graph_without_runtime(self, *example_inputs: Any) -> None:
        """Runs the passes over graphs of GE, which the first call does in any case. They do not look at the inputs."""
        with self._lock:
            self._run_passes()

    def context(self) -> AbstractContextManager[GeGraph]:
        """Makes its graph the one to which builders of this thread add operators."""
        return self._graph.context()

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph to a file. The suffix says how: ``.txt``, ``.pbtxt`` or ``.py``. Raises ``ValueError`` for
        another one."""
        dumps.write(self._graph, path, Path(path).suffix.removeprefix("."))

    def compile(self) -> Any:
        """Compiles the graph, once, and returns the C++ function of its inputs, which on npu compares streams first. If
        it raises an error, the next call tries again."""
        with self._lock:
            if self._function is None:
                at, begun = time.time_ns(), time.perf_counter_ns()
                self._load()
                logger.info("start compile graph: %s.", self._graph.name)
                executor = self._graph.executor
                strict = strict_scopes(self._graph)
                executor.compile(
                    self._request,
                    boxed=self._boxed,
                    accept=lambda core: self._check(core, strict),
                    is_tuned_later=self.should_auto_tune,
                )
                function = executor.function
                if self._fallback is not None:
                    function.fall_back_on(self._fallback)
                self._log_compiled()
                watched = self._watched(function)
                self._note(function)
                logger.info("end compile graph: %s and start run graph.", self._graph.name)
                self._function = functools.partial(self._tuned_call, watched) if self.should_auto_tune else watched
                if logger.is_asked_for(EVENT):
                    self._compiled_at = at, time.perf_counter_ns() - begun
                self._observer, self._noted = NO_OBSERVER, None  # they hold the compile
        return self._function

    def __call__(self, *args: Any) -> Any:
        if not logger.is_asked_for(EVENT):
            return (self._function or self.compile())(*args)
        function = self._function or self.compile()
        at, begun, compile_ns = time.time_ns(), time.perf_counter_ns(), 0
        if self._compiled_at is not None:  # it belongs to the first call
            at, compile_ns = self._compiled_at
            self._compiled_at = None
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s executor call ge run graph at %d", self._kind.capitalize(), time.time_ns() // 1000)
        results = function(*args)
        run_ns = time.perf_counter_ns() - begun
        times = at // 1000, compile_ns // 1000, run_ns // 1000
        logger.event("torchair run at %d, process input: 0us, compile %dus, graph run: %dus", *times)
        return results

    def _check(self, core: Any, strict: set[str]) -> None:
        refuse_cuts(core, strict)
        check_results(self._graph.name, self._expected, core)

    def _tuned_call(self, function: Any, *args: Any) -> Any:
        """The first call of a graph that is tuned. Others wait for it."""
        with self._lock:
            if self._function is not function:
                self.auto_tune(list(args[0]) if self._boxed else args)
                self._function = function
        return function(*args)

    @property
    def _kind(self) -> str:
        if self._gears is not None:
            return "geared"
        return "dynamic" if self.is_dynamic else "static"

    def _log_compiled(self) -> None:
        name, core = self._graph.name, self._graph.executor.core
        logger.info("%s FX graph compiled to %s Ascend GE graph", self._kind.capitalize(), self._kind)
        if logger.isEnabledFor(logging.DEBUG):
            streams = collections.Counter(task.stream for task in core.tasks())
            tasks = ", ".join(f"{count} on stream {stream}" for stream, count in sorted(streams.items()))
            logger.debug("Stream Allocation Summary: tasks of graph %s: %s", name, tasks)
            arena = core.memory()["arena_bytes"]
            logger.debug("Try to alloc and update feature map memory of graph %s: %d bytes", name, arena)

    def _watched(self, function: Any) -> Any:
        loaded = self._graph.executor.load_stream
        return function if loaded is None else self._load_streams.setdefault(loaded.device, loaded).watching(function)

    def _note(self, function: Any) -> None:
        artifact = Artifact(self._graph.executor.core, self._options)
        artifact.needs_python = True  # calls come from ``__call__``, or from the operators around a part
        artifact.runs_as(function)
        function.owner = artifact  # which lives as long as the function
        registry.add(artifact)
        if self._noted is not None:
            self._noted(artifact, function)

    def _run_passes(self) -> None:
        """Shows the graph the first time alone: later on it is not the original one."""
        if self._is_shown:
            normalise(self._graph.proto)
        else:
            self._is_shown = True
            normalise_and_show(self._graph, self._config, self._observer)

    def _load(self) -> None:
        self._run_passes()
        on_device = bool(self._graph.attr["_executor_type"].i)
        local_options, global_options = ge_options(self._config, on_device=on_device)
        if self._gears is not None:
            shapes = {op.name: list(op.output_desc[0].shape.dim) for op in inputs_of(self._graph)}
            local_options |= self._gears.engine_options(shapes)
        logger.debug("global compile options: %s", global_options)
        logger.debug("local compile options: %s", local_options)
        self._options = npugraph_options(self._config)
        start_engine(global_options, settings_of_torch())
        if self._request is None:
            self._request = compile_request(parse(self._options, backend="torchair"), self._graph.name)
        self._graph.executor.load(self._graph, local_options)
