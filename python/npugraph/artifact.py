# SPDX-License-Identifier: Apache-2.0
"""What one compile made, and the list of all that are alive."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import errno
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import fx

from npugraph.fx.passes.pipeline import Notes


@dataclasses.dataclass(frozen=True)
class Instance:
    """A Program bound to sizes. ``key`` is text for people, ``symbols`` maps symbol to value, the rest are counts."""

    key: str
    symbols: dict[str, int | float | bool]
    captures: int
    replays: int


@dataclasses.dataclass(frozen=True)
class Run:
    """A timed run: ``nanoseconds`` from the call of the Program to its results, and for each task when it began, since
    the run began, and how long it took."""

    nanoseconds: int
    tasks: list[tuple[int, int]]


class Artifact:
    """One compiled graph. All fields are stable API.

    An artifact lives as long as its compiled function: ``torch._dynamo.reset()`` ends it. When the model whose
    parameters it last ran with is deleted, its memory returns and it leaves ``npugraph.artifacts()``, until another
    model of the same code runs it.
    """

    modules: dict[str, str]  # "blocks.2.attn" that a FX node, by its name, came from
    asleep = False  # its model is gone
    is_kept = False  # by somebody who asks after the model is gone
    needs_python = False  # around its Program, at each call

    def __init__(
        self,
        core: Any,
        options: dict[str, Any],
        callables: dict[int, Callable[..., Any]],
        released_weights: dict[str, int],
        notes: Notes,
        modules: dict[str, str],
        nested: Sequence[Artifact] = (),
    ) -> None:
        self._core = core
        self._pieces: list[Any] = []
        self.nested = list(nested)  # the artifacts of the graphs that control flow of this one runs
        self._fx_stages = notes.stages
        self._original = notes.original
        self.replacements = notes.replacements
        self.near_misses = notes.near_misses
        self._streams = notes.streams
        self._callables = callables
        self._run: Callable[[], Any] = lambda: None
        self.options = options
        self.released_weights = released_weights
        self.modules = modules

    @property
    def name(self) -> str:
        """Name of the artifact, unique in the process unless given as an option."""
        return self._core.name

    @property
    def stages(self) -> list[str]:
        """What ``graph()`` takes: FX passes that changed something, "import", graph passes, "lower" and "plan"."""
        return [*self._fx_stages, *self._core.stages()]

    def graph(self, stage: str | None = None) -> str:
        """Text of the graph after a stage, by default the last pass; after an FX pass Python code, after "lower" and
        "plan" text of the Program. ``ValueError`` for an unknown one lists the stages."""
        if stage in self._fx_stages:
            return self._fx_stages[stage].print_readable(print_output=False)
        return self._core.text(self._stage(stage))

    def to_fx(self, stage: str | None = None) -> fx.GraphModule:
        """A GraphModule of the graph after a stage, by default the last pass, that takes the graph's inputs in order
        and can be read and run. Streams, what they wait for and core limits are the operators ``npugraph_ex::*``.
        ``ValueError`` after "lower" and "plan", where there is no graph any more."""
        if stage in self._fx_stages:
            return copy.deepcopy(self._fx_stages[stage])
        from npugraph.fx.translate.raise_fx import raise_graph

        return raise_graph(self._core.graph(self._stage(stage)), self._callables, self._streams)

    def changes(self) -> Iterator[tuple[str, fx.GraphModule, str]]:
        """Of "import" and each graph pass that changed something: name of the stage, ``to_fx()`` and ``graph()`` of
        it."""
        from npugraph.fx.translate.raise_fx import raise_graph

        for stage, graph in self._core.changed_graphs():
            yield stage, raise_graph(graph, self._callables, self._streams), str(graph)

    def program(self) -> str:
        """Text of the planned Program."""
        return self._core.program_text()

    @property
    def tasks(self) -> list[Any]:
        """Tasks in program order: name, kind, stream, waits (tasks of other streams that it waits for), limits (pairs
        of "cube_core_num" or "vector_core_num" and a number of workers), origin (FX node), source (user's line), reason
        (why it is not generated code), bytes_read, bytes_written and bytes_copied, those written that were only moved
        (of the latest Instance), nanoseconds, least_nanoseconds and most_nanoseconds (the median of ``runs`` and their
        extremes; 0 before there is one), begin_nanoseconds (since the first task began, in the run of middle length),
        saved_bytes (that fusion neither stores nor loads), operations (of arithmetic: two for each multiply-add, one
        for each other element that is computed). Bytes and operations are those of the sizes of the latest call, and 0
        before."""
        return self._core.tasks()

    @property
    def buffers(self) -> list[Any]:
        """Memory that tasks write, of the sizes of the latest call (none before): name, kind ("arena", "heap",
        "output", "workspace"), bytes, offset (in the arena, or -1), first_task and last_task that touch it (the number
        of tasks: until the call returns)."""
        return self._core.buffers()

    @property
    def remarks(self) -> list[Any]:
        """What graph passes did or could not do, where that is not plain: pass_name, node, message."""
        return self._core.remarks()

    @property
    def left_apart(self) -> list[Any]:
        """Operators that could have been one loop and are not: producer, consumer, reason, origin and source (of the
        consumer), bytes that are loaded again (of the sizes of the latest call, 0 as long as they are unknown)."""
        return self._core.left_apart()

    @property
    def partitions(self) -> list[Any]:
        """What was not captured as an ATen task: node, target, source, runs_as, reason."""
        return self._core.partitions()

    @property
    def instances(self) -> list[Instance]:
        """Captured Instances, most recent first."""
        return [Instance(*entry) for entry in self._core.instances()]

    @property
    def runs(self) -> list[Run]:
        """Of the Instance that was timed last, its first ten runs but the very first one, which warms caches, from the
        shortest to the longest."""
        return [Run(*run) for run in self._core.runs()]

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the compile: compiles, captures, capture_ns (of making Instances), replays (every run, also one
        that captured), eager_runs (of ``force_eager``, and beyond ``capture_limit``, which are neither captures nor
        replays), refreshes (runs that began with telling tasks other numbers), ``recaptures.<reason>``
        (mutated_input_change and parameter_change, other memory than in the call before, make no Instance and are no
        captures), ``pass.<name>``, cache_hits, cache_misses (of Instances); and of the kernels of its tasks, those that
        LLVM made for this compile (kernel_builds, in kernel_build_ns summed over threads), those that an earlier
        process left on disk (kernel_loads) and those that were there already (kernel_hits)."""
        return self._core.counters()

    @property
    def memory(self) -> dict[str, int]:
        """Bytes: arena_bytes (with the workspaces of our own tasks), lower_bound_bytes (maximum of live arena bytes, no
        plan can be smaller), live_bytes (the same without workspaces), heap_bytes, scratch_bytes (workspaces of tasks
        whose sizes depend on data), derived_constant_bytes, copied_bytes_per_replay (of the last replay, staging
        too), bound_bytes_per_call, released_weight_bytes (option ``release_original_weights``)."""
        return self._core.memory() | {"released_weight_bytes": sum(self.released_weights.values())}

    @property
    def phases(self) -> list[tuple[str, float]]:
        """Phases of the compile in order, with milliseconds."""
        return self._core.phases()

    def explain(self) -> str:
        """A page for people: where time and bytes go, what the passes did, what fell to ATen and why."""
        return (
            self._core.explain(self._runs_in_pieces())
            + _pieces_text(self._pieces)
            + _replacements_text(self.replacements, self.near_misses)
            + _released_text(self.released_weights)
        )

    def report(self, path: str) -> None:
        """Writes a page of HTML that needs nothing beside it: the graph before and after, what fused and what nearly
        did, memory, streams and time by task. Times are there from the second call with the same sizes on.
        ``ValueError`` when the file cannot be written."""
        from npugraph.report.page import write

        write(self, path)

    def refresh(self) -> None:
        """Forgets captures and everything derived from tensors, so that the next call sees writes that torch does not
        count (through ``.data``)."""
        self._core.refresh()
        run = self._run()
        if run is not None:
            run.forget()

    def add_piece(self, core: Any) -> None:
        """Notes what a piece of the graph compiled to, which runs in the place of the whole where a graph of npu is
        captured."""
        self._pieces.append(core)

    @property
    def core(self) -> Any:
        """The same in C++."""
        return self._core

    def runs_as(self, run: Any) -> None:
        """Names the function that ``refresh()`` is to tell."""
        self._run = weakref.ref(run)

    def save(self, path: str) -> None:
        """Writes the Program to ``path`` (mode 0600). ``ValueError`` when it has Python tasks or opaque constants,
        ``FileNotFoundError`` when its folder is not there."""
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        self._core.save(str(path))

    def _stage(self, stage: str | None) -> str:
        return self._core.graph_stages()[-1] if stage is None else stage

    def _runs_in_pieces(self) -> int:
        """Of the whole graph, inside of captured graphs."""
        return max(map(_runs, self._pieces), default=0)

    def __repr__(self) -> str:
        tasks, runs = len(self.tasks), _runs(self._core) + self._runs_in_pieces()
        return f"<npugraph.Artifact {self.name}: {_counted(tasks, 'task')}, {_counted(runs, 'run')}>"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _runs(core: Any) -> int:
    counters = core.counters()
    return counters["replays"] + counters["eager_runs"]


def _pieces_text(pieces: Sequence[Any]) -> str:
    lines = [
        f"  {core.name}: {_counted(len(core.tasks()), 'task')}, run {_counted(_runs(core), 'time')}" for core in pieces
    ]
    if not lines:
        return ""
    return "\n".join(["\nInside of captured graphs (torch.npu.graph) it runs in pieces", *lines, ""])


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
    """Puts the artifacts of one compile to sleep when the last of the tensors of the model that they ran with dies."""

    def __init__(self) -> None:
        self._artifacts: list[weakref.ref[Artifact]] = []
        self._watch: Callable[[], None] = lambda: None
        self._tensors: dict[int, weakref.ref[Any]] = {}  # by id

    def add(self, artifact: Artifact) -> None:
        self._artifacts.append(weakref.ref(artifact))

    def watch(self, run: Any, indexes: Sequence[int]) -> None:
        """Looks at the arguments ``indexes`` of ``run`` whenever a call brings another tensor as the first of them."""
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
        """Keeps what is compiled inside, in order, with its memory and after its model is gone."""
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
        """Forgets all, and takes the memory of those that something still holds: they capture again when called."""
        for artifact in self.all():
            artifact.refresh()
        with self._lock:
            self._alive.clear()
            self._names.clear()


registry = Registry()


def artifacts() -> list[Artifact]:
    """What this process compiled and still holds, in order of compilation."""
    return registry.all()
