# SPDX-License-Identifier: Apache-2.0
"""What loads, compiles and runs a graph of GE: the engine in C++, under the names that torchair gives it.
Runs on another stream than that of the load work here, and Ascend's engine refuses them."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import torch
from torch._dynamo.exc import ShortenTraceback
from torch.utils._dtype_abbrs import dtype_abbrs

from npugraph import _C
from npugraph.ge import tuning
from npugraph.ge.data_types import TensorSpec, to_torch
from npugraph.ge.normalise import DEVICE, inputs_of
from npugraph.log import logger
from npugraph.options import parse
from npugraph.request import compile_request


class LoadStream:
    """The current stream of ``device``, on which the graph of that name is loaded. Thread-safe."""

    def __init__(self, graph: str, device: torch.device) -> None:
        self.device = device
        self._graph = graph
        self._id = self._current()
        self._warns = threading.Semaphore()  # who acquires it warns

    def compare(self) -> None:
        """Warns if another stream is current, once."""
        current = self._current()
        if current != self._id and self._warns.acquire(blocking=False):
            logger.warning(
                "graph %s runs on stream %d of %s, and it was loaded on stream %d; Ascend's engine refuses runs on "
                "another stream than that of the load, which is the first call of a compiled function",
                *(self._graph, current, self.device, self._id),
            )

    def watching(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``run``, a function that runs the graph, with this comparison before each call."""

        def call(*args: Any) -> Any:
            self.compare()
            return run(*args)

        return call

    def _current(self) -> int:
        return torch.accelerator.current_stream(self.device.index).stream_id


_DTYPES = {text: dtype for dtype, text in dtype_abbrs.items()} | {"bool": torch.bool}
_TENSOR = re.compile(r"(\w+)\[([^](]*)\]")  # without sizes that are calls, such as min(d0, d1)

# The options of the process, which are those of the first graph, and the names of those that it was given.
_engine_lock = threading.Lock()
_engine_options: dict[str, str] | None = None
_given_options: Set[str] = frozenset()


def start(options: Mapping[str, str]) -> None:
    """Starts the engine with these options and no other ones. A second call with the same ones does nothing. Raises
    ``ValueError`` for other ones, because they hold until ``finish``."""
    start_engine(options, {})


def start_engine(options: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Does what ``start`` does. An option with its value in ``settings`` counts as not given."""
    global _engine_options, _given_options
    given = {name: value for name, value in options.items() if settings.get(name) != value}
    with _engine_lock:
        if _engine_options is None:
            logger.info("Initializing GE with options:%s", "".join(f"\n    {n}: {v}" for n, v in options.items()))
            _engine_options, _given_options = dict(options), given.keys()
            return
        names = given.keys() | (_given_options - settings.keys())
        changed = {name for name in names if given.get(name) != _engine_options.get(name)}
        if changed:
            told = ", ".join(f"{n}={given.get(n)!r} (was {_engine_options.get(n)!r})" for n in sorted(changed))
            raise ValueError(
                f"options of the graph engine hold for the process and cannot change: {told}; "
                "torchair.core._torchair.FinalizeGraphEngine() lets the next graph start it with other ones"
            )


def finish() -> None:
    """Lets the next start have other options. Graphs that are compiled keep running, with the options that they
    have."""
    global _engine_options
    with _engine_lock:
        _engine_options = None


class Result(NamedTuple):
    """An element type and sizes; None stands for what is not known."""

    dtype: torch.dtype
    sizes: tuple[int | None, ...]


class Results:
    """The results of a compiled graph. ``core`` is its artifact of C++."""

    def __init__(self, core: Any) -> None:
        graph = core.graph("import")
        types = dict(text.split(": ", 1) for text, _ in core.inputs())
        for node in graph.nodes():
            types.update(zip(node["results"], node["types"], strict=True))
        self._inputs = [_texts(sizes) for _, sizes, _ in graph.inputs()]
        self._types = [types.get(getattr(output, "name", None), "") for output in graph.outputs()]

    @property
    def known(self) -> list[Result | None]:
        """What is known of them before a call."""
        return [_result(text, {}) for text in self._types]

    def of_run(self, inputs: Sequence[Any]) -> list[Result | None]:
        """What is known of the results of a run with these inputs before it. Sizes that the graph computes, such as the
        sum of two sizes of inputs, are not."""
        known: dict[str, int] = {}
        for symbols, given in zip(self._inputs, inputs, strict=True):
            if isinstance(given, torch.Tensor):
                known.update(zip(symbols, given.shape, strict=False))
        return [_result(text, known) for text in self._types]


class ResultsDiffer(ShortenTraceback):
    """A result that the operators of a graph compute differs from what the FX graph says of it: a ``RuntimeError`` that
    torch.compile hands to the user as it is."""


def check_results(name: str, expected: Sequence[TensorSpec], core: Any) -> None:
    """Raises ``ResultsDiffer`` if a result of a compiled graph has another element type or other sizes than
    ``expected``, as far as both are known before a call."""
    for index, (spec, result) in enumerate(zip(expected, Results(core).known, strict=False)):
        if result is None:
            continue
        sizes = [size if isinstance(size, int) else None for size in spec.size]
        fits = len(sizes) == len(result.sizes) and all(
            None in pair or pair[0] == pair[1] for pair in zip(sizes, result.sizes, strict=True)
        )
        if not fits or to_torch(spec.dtype) != result.dtype:
            text = (
                f"result {index} of graph {name!r} is {_text(result)} by its operators of Ascend IR, and "
                f"{_text(Result(to_torch(spec.dtype), tuple(sizes)))} by the FX graph; the Meta function of an "
                "operator or its converter is wrong"
            )
            raise ResultsDiffer(text, first_useful_frame=None)


def _text(result: Result) -> str:
    return f"{result.dtype} of sizes [{', '.join('?' if size is None else str(size) for size in result.sizes)}]"


def _texts(sizes: Any) -> list[str]:
    return [str(size) for size in sizes] if isinstance(sizes, list) else []  # of a number, it is its expression


def _result(text: str, known: dict[str, int]) -> Result | None:
    found = _TENSOR.match(text)
    if found is None:
        return None
    dims = found[2].split(", ") if found[2] else []
    return Result(_DTYPES[found[1]], tuple(int(dim) if dim.isdecimal() else known.get(dim) for dim in dims))


def check_assigned(name: str, assigned: Sequence[Any], results: Sequence[Result | None]) -> None:
    """Raises ``ValueError`` if an assigned output of the graph of that name cannot hold the result of its place. None
    among them stands for a new tensor."""
    if len(assigned) > len(results):
        results_text = "1 result" if len(results) == 1 else f"{len(results)} results"
        raise ValueError(f"graph {name!r} has {results_text}, got {len(assigned)} assigned outputs")
    for index, (output, result) in enumerate(zip(assigned, results, strict=False)):
        if output is None or result is None:
            continue
        fits = len(output.shape) == len(result.sizes) and all(
            size in (None, given) for given, size in zip(output.shape, result.sizes, strict=True)
        )
        if output.dtype != result.dtype or not fits:
            raise ValueError(
                f"result {index} of graph {name!r} is {_text(result)}, and its assigned output has to be "
                f"the same, got {output.dtype} of sizes {list(output.shape)}"
            )


_PLACES = ("the host", "npu")


class TorchNpuGraphBase:
    """A graph in the engine. Its life is ``load``, ``set_hint_shape`` (may be left out), ``compile``, ``run``. Raises
    ``RuntimeError`` for a call that is too early or too late. Not for several threads at once before it is compiled;
    ``run`` is thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = "created"
        self._model: bytes = b""
        self._options: dict[str, str] = {}
        self._placements: tuple[int, ...] = ()
        self._device = torch.device("cpu")
        self._load_stream: LoadStream | None = None
        self._core: Any = None
        self._request: Any = None  # of a compiled graph that is tuned later
        self._function: Any = None
        self._is_boxed = False

    @property
    def name(self) -> str:
        return self._name

    def load(
        self,
        model_def: bytes,
        options: Mapping[str, str],
        input_placements: Sequence[int],
        output_dtypes: Sequence[int],
        executor_type: int,
        device: torch.device | None = None,
    ) -> None:
        """Takes the bytes of a ``ModelDef`` and the options of this graph. ``input_placements`` are 0 for inputs of the
        host and 1 for those of the device. ``output_dtypes`` are ``DataType`` numbers; the engine finds types itself.
        ``executor_type`` is 0 for results on the host and 1 for those on ``device``, by default the current one of npu.
        Before ``compile``, another ``load`` takes the place of the last one. Raises ``ValueError`` for other numbers,
        ``RuntimeError`` for a graph of npu where torch_npu is not imported."""
        self._expect("load", "created", "loaded")
        placements = tuple(input_placements)
        if executor_type not in (0, 1) or any(placement not in (0, 1) for placement in placements):
            raise ValueError(
                f"placements of inputs and the kind of the executor are 0 (host) or 1 (npu), got {list(placements)} "
                f"and {executor_type!r} for graph {self._name!r}"
            )
        if 1 in placements and executor_type == 0:
            raise ValueError(
                f"input {placements.index(1)} of graph {self._name!r} is placed on npu (1), and its executor is one of "
                "the host (0)"
            )
        if executor_type == 1 and "torch_npu" not in sys.modules:
            raise RuntimeError(
                f"graph {self._name!r} has inputs on npu, and torch_npu is not imported; inputs that are placed on CPU "
                "run on the host"
            )
        self._model, self._options, self._placements = bytes(model_def), dict(options), placements
        self._device = torch.device("cpu")
        if executor_type:
            self._device = device or torch.device("npu", torch.npu.current_device())
        self._load_stream = LoadStream(self._name, self._device) if executor_type else None
        self._state = "loaded"

    def set_hint_shape(self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> None:
        """Sizes that calls are expected to have, -1 for unknown ones. The engine compiles for all sizes and makes the
        rest at the first call of each size, so the hint changes nothing. Raises ``ValueError`` if it speaks of another
        number of inputs than ``load``."""
        self._expect("set_hint_shape", "loaded")
        if len(inputs) != len(self._placements):
            raise ValueError(
                f"graph {self._name!r} was loaded with {len(self._placements)} inputs, and the hint has shapes of "
                f"{len(inputs)}"
            )
        logger.debug("Load graph set_hint_shape input shape: %s, output shape: %s", inputs, outputs)

    def compile(
        self,
        request: Any = None,
        *,
        boxed: bool = False,
        accept: Callable[[Any], None] = lambda core: None,
        is_tuned_later: bool = False,
    ) -> None:
        """Compiles the graph. ``request`` is a ``_C.CompileRequest``. A ``boxed`` function takes a list of the inputs,
        which it empties, any other one takes them one by one. ``auto_tune`` may follow only if the graph
        ``is_tuned_later``. ``accept`` gets the artifact of C++ and raises an error
        if that is not as the graph asks for. Raises an error that names the operator and the line of
        the user's program if the graph is not well formed or has an operator that the engine lacks; the graph can then
        be loaded again."""
        self._expect("compile", "loaded")
        if request is None:
            request = compile_request(parse(None), self._name)
        options = "".join(f"\n    {name} = {value}" for name, value in self._options.items())
        logger.info("Compiling concrete graph %s with options:%s", self._name, options)
        begun = time.perf_counter()
        with _engine_lock:
            all_options = (_engine_options or {}) | self._options
        core = _C.ge.compile(self._model, request, self._device, all_options)
        accept(core)
        self._core = core
        self._function = self._core.callable(boxed=boxed)
        self._function.backend = "torchair"
        logger.info("Compile Graph %s consume: %d ms.", self._name, (time.perf_counter() - begun) * 1e3)
        logger.phases(self._name, self._core.phases())
        self._is_boxed = boxed
        if is_tuned_later:
            self._request = request
        else:
            self._model = b""  # the Program has its own constants
        self._state = "compiled"

    def auto_tune(self, arguments: tuple[Any, ...]) -> list[tuning.Product]:
        """``arguments`` are inputs and a stream. Measures the plans of products of the graph with these inputs, on the
        stream, and keeps the fastest ones, with which it then runs. Before the first run, as plans are made for that.
        Returns what it measured: nothing for a graph that acts outside of itself, which the log says. Raises
        ``RuntimeError`` for a graph that was compiled and may not be tuned any more."""
        self._expect("auto_tune", "loaded", "compiled")
        if not self._model:
            raise RuntimeError(f"graph {self._name!r} was compiled; auto_tune comes between load and compile")
        inputs, stream = arguments
        self._check_placements(inputs)
        request = compile_request(parse(None), self._name) if self._request is None else self._request
        reason = tuning.why_not(self._model)
        if reason:
            logger.warning("graph %s is not tuned: %s", self._name, reason)
        with contextlib.nullcontext() if stream is None else stream:
            tuned = [] if reason else tuning.tune(self._model, request, self._device, inputs)
        if self._state == "compiled":
            self._model = b""
        return tuned

    def summary(self) -> dict[str, int]:
        """Bytes that the compiled graph needs."""
        self._expect("summary", "compiled")
        return dict(self._core.memory())

    def run(self, arguments: tuple[Any, ...]) -> list[Any]:
        """``arguments`` are inputs, assigned outputs and a stream. Returns the results, in tensors of their own, or in
        the assigned output of their place if that is not None. Runs on the stream, or on the current one for None. If
        ``load`` was on another stream of npu, the log says so, once.
        Raises ``RuntimeError`` for an input that is not where ``load`` placed it, ``ValueError`` for a wrong number of
        inputs and for assigned outputs that differ from the results in number, sizes or element type. Nothing has run
        then, unless the graph computes the size that differs; no output is written in any case."""
        self._expect("run", "compiled")
        inputs, assigned, stream = arguments
        self._check_placements(inputs)
        if assigned:
            check_assigned(self._name, assigned, self._results.of_run(inputs))
        with contextlib.nullcontext() if stream is None else stream:
            if self._load_stream is not None:
                self._load_stream.compare()
            results = list(self._function(list(inputs)) if self._is_boxed else self._function(*inputs))
            check_assigned(self._name, assigned, [Result(made.dtype, tuple(made.shape)) for made in results])
            for index, output in enumerate(assigned):
                if output is not None:
                    results[index] = output.copy_(results[index])
        return results

    @property
    def options(self) -> dict[str, str]:
        """The options that the graph was loaded with."""
        return dict(self._options)

    @property
    def load_stream(self) -> LoadStream | None:
        """The stream of the load; None for a graph of the host."""
        return self._load_stream

    @property
    def core(self) -> Any:
        """The artifact of C++; None before ``compile``."""
        return self._core

    @property
    def function(self) -> Any:
        """The C++ function of the inputs, which returns the results; None before ``compile``."""
        return self._function

    @functools.cached_property
    def _results(self) -> Results:
        return Results(self._core)

    def _check_placements(self, inputs: Sequence[Any]) -> None:
        if len(inputs) != len(self._placements):
            raise ValueError(f"graph {self._name!r} has {len(self._placements)} inputs, got {len(inputs)}")
        for index, (given, placement) in enumerate(zip(inputs, self._placements, strict=True)):
            if isinstance(given, torch.Tensor) and (given.device.type != "cpu") != bool(placement):
                raise RuntimeError(
                    f"input {index} of graph {self._name!r} is placed on {_PLACES[placement]}, got a tensor on "
                    f"{_PLACES[1 - placement]} ({given.device})"
                )

    def _expect(self, call: str, *states: str) -> None:
        if self._state not in states:
            raise RuntimeError(
                f"graph {self._name!r} is {self._state}, and {call} takes a graph that is {' or '.join(states)}; the "
                "order is load, compile, run"
            )


class TorchNpuGraph(TorchNpuGraphBase):
    """The same with a ``GeGraph`` in place of its bytes."""

    def __init__(self, name: str = "") -> None:
        super().__init__(str(name))

    def load(self, ge_graph: Any, options: Mapping[str, str] | None = None) -> None:  # type: ignore[override]
        """Takes a normalised graph. Its attributes say where its inputs are placed, what its results are, and for which
        device it is."""
        placements = list(ge_graph.attr["_input_placements"].list.i)
        logger.debug("Get graph %s input placements %s", self.name, placements)
        device = torch.device(ge_graph.attr[DEVICE].s.decode()) if DEVICE in ge_graph.attr else None
        super().load(
            ge_graph.SerializeToString(),
            options or {},
            placements,
            list(ge_graph.attr["_output_dtypes"].list.i),
            1 if device else ge_graph.attr["_executor_type"].i,
            device,
        )
        super().set_hint_shape(_shapes_of_inputs(ge_graph), [])

    def auto_tune(  # type: ignore[override]
        self, example_inputs: Sequence[Any] = (), stream: Any = None
    ) -> list[tuning.Product]:
        return super().auto_tune((example_inputs, stream))

    def run(self, inputs: Sequence[Any], assigned_outputs: Sequence[Any] = (), stream: Any = None) -> list[Any]:  # type: ignore[override]
        return super().run((inputs, assigned_outputs, stream))


def _shapes_of_inputs(graph: Any) -> list[list[int]]:
    return [[dim for desc in op.output_desc for dim in desc.shape.dim] for op in inputs_of(graph)]
