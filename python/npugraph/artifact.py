# SPDX-License-Identifier: Apache-2.0
"""The artifacts of compiles, and the list of all artifacts that are alive."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import errno
import functools
import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import fx

from npugraph.fx.passes.pipeline import Notes
from npugraph.python_operators import runs_python

CALLER = "caller"  # the fact of a saved Program that describes the function around its graph, in JSON


@dataclasses.dataclass(frozen=True)
class Instance:
    """A Program that is bound to sizes. ``key`` names the sizes for people, ``symbols`` maps each symbol to its value,
    and the other fields are counts."""

    key: str
    symbols: dict[str, int | float | bool]
    captures: int
    replays: int


@dataclasses.dataclass(frozen=True)
class Run:
    """A timed run. ``nanoseconds`` is the time from the call of the Program to its results. ``tasks`` has a pair for
    each task: when it began, in nanoseconds since the begin of the run, and how many nanoseconds it took."""

    nanoseconds: int
    tasks: list[tuple[int, int]]


class Artifact:
    """One compiled graph, or one that an earlier process compiled and that a cache kept. The latter has no graphs: its
    one stage is "plan". All fields are stable API.

    An artifact lives as long as its compiled function; ``torch._dynamo.reset()`` ends both. When the model whose
    parameters it last ran with is deleted, the artifact frees its memory and leaves ``npugraph.artifacts()``, until
    another model of the same code runs it.
    """

    modules: dict[str, str]  # from the name of an FX node to the module that it came from, such as "blocks.2.attn"
    asleep = False  # whether its model is gone
    is_kept = False  # whether it keeps its memory after its model is gone, see Registry.keep
    needs_python = False  # whether each call runs Python code around its Program
    # The outputs of its graph as expressions of inputs and of ``out``, the outputs of its Program: what Python code
    # around it makes. None if nobody has said it.
    outputs: Sequence[str] | None = None
    condition = ""  # of calls, beside Dynamo's guards, as an expression of inputs
    caller: Any = None  # the function around the graph, a ``Caller``; None if more than the Program runs in its calls

    def __init__(
        self,
        core: Any,
        options: dict[str, Any],
        callables: Mapping[int, Callable[..., Any]] = MappingProxyType({}),
        released_weights: Mapping[str, int] = MappingProxyType({}),
        notes: Notes | None = None,
        modules: Mapping[str, str] = MappingProxyType({}),
        nested: Sequence[Artifact] = (),
    ) -> None:
        notes = notes or Notes()
        self._core = core
        self._pieces: list[Any] = []
        self.nested = list(nested)  # the artifacts of the graphs that control flow of this graph runs
        self._fx_stages = notes.stages
        self._original = notes.original
        self.replacements = notes.replacements
        self.near_misses = notes.near_misses
        self._streams = notes.streams
        self._callables = dict(callables)
        self._run: Callable[[], Any] = lambda: None
        self.options = options
        self.released_weights = dict(released_weights)
        self.modules = dict(modules)

    @property
    def name(self) -> str:
        """The name of the artifact. It is unique in the process unless it was given as an option."""
        return self._core.name

    @property
    def stages(self) -> list[str]:
        """The stages that ``graph()`` takes: the FX passes that changed something, "import", the graph passes, "lower"
        and "plan"."""
        return [*self._fx_stages, *self._core.stages()]

    def graph(self, stage: str | None = None) -> str:
        """Returns the text of the graph after a stage, by default after the last graph pass, or of the Program if there
        are no graphs. After an FX pass the text is Python code, after "lower" and "plan" it is the text of the Program.
        Raises ``ValueError``, which lists the stages, for an unknown stage."""
        if stage in self._fx_stages:
            return self._fx_stages[stage].print_readable(print_output=False)
        return self._core.text(self._stage(stage))

    def to_fx(self, stage: str | None = None) -> fx.GraphModule:
        """Returns the graph after a stage, by default after the last graph pass, as a GraphModule that takes the
        graph's inputs in order and can be read and run. Streams, their waits and core limits are the operators
        ``npugraph_ex::*``. Raises ``ValueError`` for an unknown stage, and for "lower" and "plan", after which there is
        no graph any more."""
        if stage in self._fx_stages:
            return copy.deepcopy(self._fx_stages[stage])
        from npugraph.fx.translate.raise_fx import raise_graph

        return raise_graph(self._core.graph(self._stage(stage)), self._callables, self._streams)

    def changes(self) -> Iterator[tuple[str, fx.GraphModule, str]]:
        """Yields for "import" and for each graph pass that changed something: the name of the stage, its ``to_fx()``
        and its ``graph()``."""
        from npugraph.fx.translate.raise_fx import raise_graph

        for stage, graph in self._core.changed_graphs():
            yield stage, raise_graph(graph, self._callables, self._streams), str(graph)

    def program(self) -> str:
        """Returns the text of the planned Program."""
        return self._core.program_text()

    @property
    def tasks(self) -> list[Any]:
        """The tasks in program order. Bytes and operations are those of the sizes of the latest call, and 0 before the
        first call. Fields of a task:

        - name, kind and stream
        - waits: the tasks of other streams that it waits for
        - limits: pairs of "cube_core_num" or "vector_core_num" and a number of workers
        - origin: the FX nodes that it computes; source: the user's line
        - reason: why it is not generated code
        - bytes_read, bytes_written, and bytes_copied: the part of bytes_written that was only moved
        - saved_bytes: bytes that it neither stores nor loads because of fusion
        - operations: arithmetic operations, two for each multiply-add, one for each other element that is computed
        - nanoseconds, least_nanoseconds and most_nanoseconds: median and extremes in ``runs``, 0 before the first run
        - begin_nanoseconds: the time since the first task began, in the run of middle length
        """
        return self._core.tasks()

    @property
    def python_tasks(self) -> list[Any]:
        """Those of ``tasks`` that run Python: callables, and operators whose kernels are Python functions. Python code
        holds the interpreter's lock (GIL), so these tasks run one at a time, also on several streams. Operators of
        torch that they call may overlap."""
        return [task for task in self.tasks if runs_python(task)]

    @property
    def buffers(self) -> list[Any]:
        """The memory that tasks write, for the sizes of the latest call; empty before the first call. Fields: name,
        kind ("arena", "heap", "output", "workspace"), bytes, offset (in the arena in bytes, or -1), and the first_task
        and last_task that touch it. last_task is the number of tasks if the memory lives until the call returns."""
        return self._core.buffers()

    @property
    def remarks(self) -> list[Any]:
        """Remarks of graph passes about what they did or could not do, where that is not obvious: pass_name, node,
        message."""
        return self._core.remarks()

    @property
    def left_apart(self) -> list[Any]:
        """Pairs of operators that could have been one loop and are not: producer, consumer, reason, origin and source
        of the consumer, and bytes that are loaded again (for the sizes of the latest call; 0 as long as they are
        unknown)."""
        return self._core.left_apart()

    @property
    def partitions(self) -> list[Any]:
        """The nodes that run in Python between captured tasks: node, target, source, runs_as, reason."""
        return self._core.partitions()

    @property
    def instances(self) -> list[Instance]:
        """The captured Instances, the most recent one first."""
        return [Instance(*entry) for entry in self._core.instances()]

    @property
    def runs(self) -> list[Run]:
        """The timed runs of the Instance that was timed last, from the shortest to the longest. Its second to its tenth
        run are timed. Its first run is not, because it warms the caches."""
        return [Run(*run) for run in self._core.runs()]

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the compile:

        - compiles, captures, and capture_ns: nanoseconds that it took to make Instances
        - replays: every run, also a run that captured, but no eager run
        - eager_runs: runs with ``force_eager`` and beyond ``capture_limit``; they are neither captures nor replays
        - captures_in_graphs: calls that became part of a graph of ``torch.npu.graph``, which runs them again
        - refreshes: runs that first told tasks other numbers
        - ``recaptures.<reason>``: the reasons mutated_input_change and parameter_change mean other memory than in the
          call before; they make no Instance and are no captures
        - ``pass.<name>``: rewrites of a graph pass
        - cache_hits, cache_misses: calls that found an Instance for their sizes, or did not
        - kernel_builds: kernels of its tasks that LLVM made for this compile, in kernel_build_ns summed over threads
        - kernel_loads: kernels that an earlier process left on disk
        - kernel_hits: kernels that were in the process already
        """
        return self._core.counters()

    @property
    def memory(self) -> dict[str, int]:
        """Memory in bytes:

        - arena_bytes: the arena, with the workspaces of npugraph's own tasks
        - lower_bound_bytes: the most bytes of the arena that are alive at once; no plan can be smaller
        - live_bytes: the same without workspaces
        - heap_bytes
        - scratch_bytes: workspaces of tasks whose sizes depend on data
        - derived_constant_bytes
        - copied_bytes_per_replay: bytes that the last replay copied, also for staging
        - bound_bytes_per_call
        - released_weight_bytes: see the option ``release_original_weights``
        """
        return self._core.memory() | {"released_weight_bytes": sum(self.released_weights.values())}

    @property
    def phases(self) -> list[tuple[str, float]]:
        """The phases of the compile in order, with milliseconds."""
        return self._core.phases()

    def explain(self) -> str:
        """Returns a page for people: where time and bytes go, what the passes did, what fell to ATen and why."""
        return (
            self._core.explain(self._most_of_pieces(_captures), self._most_of_pieces(_runs))
            + _python_text(self.tasks, self.python_tasks)
            + _pieces_text(self._pieces)
            + _replacements_text(self.replacements, self.near_misses)
            + _released_text(self.released_weights)
        )

    def report(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Returns a page of HTML that needs no other file, and writes it to ``path``, if there is one. Notebooks show
        what it returns. The page shows the graph before and after the passes, what fused and what nearly did, memory,
        streams and the time of each task. Times are there from the second call with the same sizes on. Raises
        ``OSError``, such as ``FileNotFoundError``, if the file cannot be written."""
        from npugraph.report.page import Page, page

        made = Page(page(self))
        if path is not None:
            Path(path).write_text(made.text, encoding="utf-8")
        return made

    def refresh(self) -> None:
        """Forgets captures and everything derived from tensors. The next call therefore sees writes that torch does not
        count, such as writes through ``.data``."""
        self._core.refresh()
        run = self._run()
        if run is not None:
            run.forget()

    def add_piece(self, core: Any) -> None:
        """Notes the compiled form of a piece of the graph. Pieces run in place of the whole graph while a graph of npu
        is captured."""
        self._pieces.append(core)

    @property
    def core(self) -> Any:
        """The C++ half of the artifact."""
        return self._core

    def runs_as(self, run: Any) -> None:
        """Sets the function whose bound inputs ``refresh()`` forgets, too. The artifact does not keep it alive."""
        self._run = weakref.ref(run)

    def save(self, path: str, *, torch_free: bool = False) -> None:
        """Writes the Program to ``path``. At each call it tests what it assumes of its inputs: types, sizes, strides,
        numbers, and what the guards of the graph say of these.

        With ``torch_free`` the graph is compiled again. All operators that can be generated are, also where torch's
        operator is faster, and the Program runs in processes without torch.

        Raises ``ValueError`` if it has Python tasks or opaque constants, with ``torch_free`` also if an operator cannot
        be generated. The message names all such operators, with their lines and reasons. Raises ``FileNotFoundError``
        if the folder does not exist."""
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        described = self.caller and self.caller.describe()
        facts = {CALLER: json.dumps(described)} if described else {}
        self._core.save(str(path), guarded=True, torch_free=torch_free, facts=facts)

    def _stage(self, stage: str | None) -> str:
        return (self._core.graph_stages() or self._core.stages())[-1] if stage is None else stage

    def _most_of_pieces(self, count: Callable[[Any], int]) -> int:
        """Returns the largest ``count`` of a piece, which is that of the whole graph inside of captured graphs."""
        return max(map(count, self._pieces), default=0)

    def __repr__(self) -> str:
        tasks, runs = len(self.tasks), _runs(self._core) + self._most_of_pieces(_runs)
        return f"<npugraph.Artifact {self.name}: {_counted(tasks, 'task')}, {_counted(runs, 'run')}>"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _runs(core: Any) -> int:
    counters = core.counters()
    return counters["replays"] + counters["eager_runs"]


def _captures(core: Any) -> int:
    return core.counters()["captures_in_graphs"]


def _pieces_text(pieces: Sequence[Any]) -> str:
    lines = [
        f"  {core.name}: {_counted(len(core.tasks()), 'task')}, run {_counted(_runs(core), 'time')}" for core in pieces
    ]
    if not lines:
        return ""
    return "\n".join(["\nInside of captured graphs (torch.npu.graph) it runs in pieces", *lines, ""])


def _python_text(tasks: Sequence[Any], own: Sequence[Any]) -> str:
    if not own:
        return ""
    time, whole = (sum(task.nanoseconds for task in some) for some in (own, tasks))
    share = f", {time / whole:.0%} of the time".replace("%", " %") if whole else ""
    names = Counter(f"{task.name}{_at(task.source)}" for task in own)
    lines = [f"  {len(own)} of {_counted(len(tasks), 'task')}{share}; one at a time, because Python code holds the GIL"]
    lines += [f"  {count:>4}x {name}" for name, count in names.items()]
    return "\n".join(["\nPython", *lines, ""])


def _replacements_text(replacements: Sequence[Any], near_misses: Sequence[Any]) -> str:
    lines = []
    if replacements:
        lines.append("\nReplaced patterns")
        lines += [f"  {r.rule}: {', '.join(r.removed)} -> {', '.join(r.added)}{_at(r.source)}" for r in replacements]
    if near_misses:
        lines.append("\nPatterns that nearly matched")
        lines += [f"  {m.rule} at {m.node}{_at(m.source)}: {m.reason}" for m in near_misses]
    return "\n".join([*lines, ""]) if lines else ""


def _at(source: str) -> str:
    return f" ({source})" if source else ""


def _released_text(released: dict[str, int]) -> str:
    if not released:
        return ""
    lines = [f"  {count:>14,} bytes  {name}" for name, count in released.items()]
    return "\nReleased weights, of which the graph keeps what it computed from them\n" + "\n".join(lines) + "\n"


class Owners:
    """Puts the artifacts of one compile to sleep when the last tensor of the model that they ran with dies."""

    def __init__(self) -> None:
        self._artifacts: list[weakref.ref[Artifact]] = []
        self._watch: Callable[[], None] = lambda: None
        self._tensors: dict[int, weakref.ref[Any]] = {}  # by id

    def add(self, artifact: Artifact) -> None:
        self._artifacts.append(weakref.ref(artifact))

    def watch(self, run: Any, indexes: Sequence[int]) -> None:
        """Looks at the arguments ``indexes`` of ``run`` whenever a call has another tensor as the first of them."""
        ref = weakref.ref(run)

        def watch() -> None:
            run = ref()
            if run is not None:
                run.watch(indexes[0], functools.partial(self._meet, indexes))

        self._watch = watch
        watch()

    def _meet(self, indexes: Sequence[int], args: list[Any]) -> None:
        for tensor in (args[index] for index in indexes):
            if id(tensor) not in self._tensors:
                self._tensors[id(tensor)] = weakref.ref(tensor, functools.partial(self._lose, id(tensor)))
        self._set_asleep(False)

    def _lose(self, number: int, _: Any) -> None:
        self._tensors.pop(number, None)
        self._watch()  # another tensor may have the same address
        if not self._tensors:
            self._set_asleep(True)

    def _set_asleep(self, asleep: bool) -> None:
        for ref in self._artifacts:
            artifact = ref()
            if artifact is not None:
                artifact.asleep = asleep
                if asleep and not artifact.is_kept:
                    artifact.refresh()


class Registry:
    """The artifacts that are alive, in order of compilation. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: list[weakref.ref[Artifact]] = []
        self._names: dict[str, int] = {}
        self._kept: list[Artifact] | None = None

    @contextlib.contextmanager
    def keep(self) -> Iterator[list[Artifact]]:
        """Yields a list to which artifacts compiled inside of the block are added, in order. They keep their memory
        after their model is gone."""
        self._kept = kept = []
        try:
            yield kept
        finally:
            self._kept = None

    def add(self, artifact: Artifact) -> None:
        with self._lock:
            if self._kept is not None:
                artifact.is_kept = True
                self._kept.append(artifact)
            self._alive = [ref for ref in self._alive if ref() is not None]
            self._alive.append(weakref.ref(artifact))

    def all(self) -> list[Artifact]:
        with self._lock:
            found = [ref() for ref in self._alive]
        return [artifact for artifact in found if artifact is not None and not artifact.asleep]

    def unique_name(self, wish: str) -> str:
        with self._lock:
            count = self._names[wish] = self._names.get(wish, -1) + 1
        return f"{wish}_{count}"

    def clear(self) -> None:
        """Forgets all artifacts. Artifacts that something still holds free their memory, and capture again when they
        are called."""
        for artifact in self.all():
            artifact.refresh()
        with self._lock:
            self._alive.clear()
            self._names.clear()


registry = Registry()


def artifacts() -> list[Artifact]:
    """Returns the artifacts that this process compiled or took from a cache of compiled graphs, and still holds, in
    order."""
    return registry.all()
