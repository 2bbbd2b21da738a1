# SPDX-License-Identifier: Apache-2.0
"""A method whose compiled graphs outlive the process."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import os
import platform
import threading
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._C._dynamo import eval_frame

from npugraph import _C, counters, saved
from npugraph.artifact import Artifact
from npugraph.fx.dynamo import recipe, restricted, sources
from npugraph.fx.dynamo.callers import Place, Variables, follow, place_of
from npugraph.inference import plain_values, source_files
from npugraph.inference.conditions import Condition
from npugraph.inference.difference import difference
from npugraph.inference.method import NotCacheable, arguments_of, name_of, source_of_owner
from npugraph.inference.paths import Seen, Tree
from npugraph.log import logger
from npugraph.options import CompilerConfig
from npugraph.request import run_request
from npugraph.stored import container, programs
from npugraph.stored.container import Entry

_MOST_GRAPHS = 16


class CachedGraph:
    """A compiled graph for ``method``, and the conditions of its use."""

    def __init__(self, method: types.MethodType, record: Mapping[str, Any], program: Any) -> None:
        found = [Condition(*fields) for fields in record["conditions"]]
        owner = source_of_owner(method)
        self._conditions = found
        self._of_call = Tree(condition for condition in found if condition.is_of_call(owner))
        self._lasting = Tree(condition for condition in found if not condition.is_of_call(owner))
        self._variables = Variables(method.__func__, record["modules"])
        self._globals = method.__func__.__globals__
        self._state = record["torch_state"]
        self._finish = restricted.function(record["result"], recipe.HELPERS)
        try:
            _check_model(owner, program)
            self._program = program
            self._run = saved.bind(program, method.__self__, "cache_compiler inference")
        except ValueError as error:
            raise NotCacheable(str(error)) from None
        self._places = [_place(name, program) for name in self._run.arguments]
        self._seen: Seen | None = None

    def accepts(self, arguments: Mapping[str, Any], state: list[Any]) -> bool:
        return state == self._state and self._of_call.holds(arguments, self._variables) and self.lasts(arguments)

    def difference(self, arguments: Mapping[str, Any]) -> str:
        """Returns why the graph does not fit a call that ``accepts`` refuses."""
        return difference(self._conditions, arguments, self._variables)

    def lasts(self, arguments: Mapping[str, Any], *, again: bool = False) -> bool:
        """Whether everything that does not belong to a single call is as it was at the compile. ``again`` tests it even
        if there is no sign of a change."""
        if self._seen is not None and not again and self._seen.is_unchanged():
            return True
        seen = Seen()
        seen.add(self._globals, is_leaf=False)
        holds = self._lasting.holds(arguments, self._variables, seen)
        seen.finish()
        self._seen = seen if holds else None
        return holds

    def keep(self, artifact: Artifact) -> None:
        """Keeps the artifact of the graph alive, so that ``npugraph.artifacts()`` lists it."""
        self._artifact = artifact
        artifact.runs_as(self._run)

    def refresh(self) -> None:
        self._program.refresh()
        self._run.forget()

    def __call__(self, arguments: Mapping[str, Any]) -> Any:
        out = self._run(*(follow(place, arguments) for place in self._places))
        return self._finish(arguments, self._variables, out)


def _check_model(owner: str, program: Any) -> None:
    """Raises ``NotCacheable`` if weights belong to a module that is an argument, and not to the method's module."""
    model = sources.model_among(sources.parse(source) for _, source in program.inputs())
    if model is not None and sources.parse(f"{owner}.x").argument != model:
        raise NotCacheable(f"weights are of the argument {model}")


def _place(name: str, program: Any) -> Place:
    place = place_of(name, [source for _, source in program.inputs()])
    if place is None:
        raise NotCacheable(f"nothing says where its argument {name} is")
    return place


@dataclasses.dataclass
class Known:
    """A graph of this process, and its entry in the file."""

    graph: CachedGraph
    entry: Entry


def _needs_compile(config: CompilerConfig) -> str:
    """Returns why each process has to compile graphs with these options itself, or an empty text if it need not."""
    if config.release_original_weights.value:
        return "option 'release_original_weights' puts what it computes from the weights of this process into the graph"
    for name in ("deadlock_check", "dump_tensor_data"):
        if getattr(config, name).value:
            return f"option {name!r} looks at the runs of the process that compiled"
    return ""


@dataclasses.dataclass(frozen=True)
class Mode:
    """How graphs are compiled. ``config`` has the options of their runs. ``backend`` makes a backend of torch.compile;
    it imports torch._dynamo, which takes longer than everything that a process does for a graph from a file.
    ``backend_at_once`` makes one that compiles graphs before it returns."""

    config: CompilerConfig
    backend: Callable[[], Callable[..., Any]]
    backend_at_once: Callable[[], Callable[..., Any]]


class CachedFunction:
    """The result of ``cache_compile``: a function like ``method`` that runs without gradients. ``path`` returns its
    file. Thread-safe."""

    def __init__(self, method: types.MethodType, dynamic: bool, mode: Mode, path: Callable[[], Path]) -> None:
        self.__name__ = method.__func__.__name__
        self.__doc__ = method.__func__.__doc__
        self.__wrapped__ = method
        self._method = method
        self._signature = inspect.signature(method.__func__, follow_wrapped=False)
        self._dynamic = dynamic
        self._mode = mode
        self._path = path
        self._lock = threading.RLock()
        self._known: tuple[Known, ...] = ()
        self._file: tuple[int, ...] = ()  # the version of the file that was read or written last
        self._uncached: Callable[..., Any] | None = None

    @property
    def path(self) -> Path:
        """The file of the cache."""
        return self._path()

    def refresh(self) -> None:
        """Forgets captures and the addresses of parameters, as ``Artifact.refresh`` does."""
        for known in self._known:
            known.graph.refresh()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self._call(*args, **kwargs)
        return self._call(*args, **kwargs)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        arguments = arguments_of(self._method, self._signature, args, kwargs)
        graph = self._find(arguments)
        if graph is None:
            if self._uncached is not None:
                return self._uncached(*args, **kwargs)
            graph = self._load_or_compile(args, kwargs, arguments)
            if graph is None:
                return self._uncached(*args, **kwargs)
        try:
            return graph(arguments)
        except (_C.InputsOverlap, _C.InputElsewhere):  # nothing has run
            return self._method(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError):
            if graph.lasts(arguments, again=True):
                raise
        return self._call(*args, **kwargs)  # the Program refused the call, because the model has other tensors now

    def _find(self, arguments: Mapping[str, Any]) -> CachedGraph | None:
        state = plain_values.of_torch_state()
        return next((known.graph for known in self._known if known.graph.accepts(arguments, state)), None)

    def _load_or_compile(self, args: Any, kwargs: Any, arguments: Mapping[str, Any]) -> CachedGraph | None:
        """Returns a graph for these arguments, or None if the method was compiled without being cached."""
        path = self.path
        _C.ensure_counters()
        with self._lock, container.locked(path):
            self._load(path)
            graph = self._find(arguments)
            if graph is not None:
                _C.count("inference_cache_hits")
                return graph
            _C.count("inference_cache_misses")
            if self._known:
                self._warn_of_recompile(path, arguments)
            return self._compile(path, args, kwargs, arguments)

    def _warn_of_recompile(self, path: Path, arguments: Mapping[str, Any]) -> None:
        warnings.warn(
            f"{name_of(self._method)} is compiled again: none of the {len(self._known)} graphs in its cache "
            f"{path} is for arguments, settings or a model like these; the new one joins them. "
            f"With the last of them: {self._known[-1].graph.difference(arguments)}",
            UserWarning,
            stacklevel=5,
        )

    def _load(self, path: Path) -> None:
        try:
            version = _version(path)
            if version == self._file:
                return
            self._file = version
            content = container.read(path)
            content.require_this_build()
        except (FileNotFoundError, NotADirectoryError):
            return
        except (container.Unusable, PermissionError) as reason:
            _warn_of_file(path, reason)
            return
        for entry in content.entries:
            self._add_entry(path, entry)

    def _add_entry(self, path: Path, entry: Entry) -> None:
        if any(known.entry.record == entry.record for known in self._known):
            return
        try:
            if not source_files.are_unchanged(entry.record["sources"]):
                raise NotCacheable("the source of the model has changed")
            if not source_files.are_there(entry.record["functions"]):
                raise NotCacheable("a function that it was traced from is another one")
            program = programs.load(entry.program, run_request(self._mode.config))
            graph = CachedGraph(self._method, entry.record, program)
        except (NotCacheable, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            logger.info("a graph in %s is not used: %s", path, error)
            return
        self._known = (*self._known, Known(graph, entry))

    def _compile(self, path: Path, args: Any, kwargs: Any, arguments: Mapping[str, Any]) -> CachedGraph | None:
        from npugraph.inference.capture import capture  # imports torch._dynamo

        try:
            if len(self._known) >= _MOST_GRAPHS:
                raise NotCacheable(f"its cache holds {_MOST_GRAPHS} graphs, as many as it may")
            if reason := _needs_compile(self._mode.config):
                raise NotCacheable(reason)
            made = capture(self._method, args, kwargs, arguments, self._dynamic, self._mode.backend_at_once())
            graph = CachedGraph(self._method, made.record, made.artifact._core)
        except NotCacheable as reason:
            self._leave_uncached(reason)
            return None
        graph.keep(made.artifact)
        self._known = (*self._known, Known(graph, Entry(made.record, made.program)))
        self._write(path)
        return graph

    def _leave_uncached(self, reason: Exception) -> None:
        warnings.warn(
            f"{name_of(self._method)} is compiled, but not cached for later processes: {reason}",
            UserWarning,
            stacklevel=6,
        )
        backend = self._mode.backend()
        self._uncached = torch.compile(self._method, backend=backend, dynamic=self._dynamic, fullgraph=True)

    def _write(self, path: Path) -> None:
        meta = {
            "name": name_of(self._method),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "version": container.VERSION,
            "python": platform.python_version(),
        }
        try:
            container.write(path, meta, [known.entry for known in self._known])
            self._file = _version(path)
        except OSError as error:
            warnings.warn(f"cannot write the cache {path}: {error}", UserWarning, stacklevel=6)


counters.install()
# Dynamo must not trace the function, which has graphs of its own. These lines tell Dynamo so without importing
# torch._dynamo.
CachedFunction.__call__._torchdynamo_disable = True
CachedFunction.__call__._torchdynamo_disable_msg = "npugraph: a cached function has graphs of its own"
_skip = eval_frame._FrameAction.SKIP
eval_frame.set_code_exec_strategy(CachedFunction.__call__.__code__, eval_frame._FrameExecStrategy(_skip, _skip))


def _version(path: Path) -> tuple[int, ...]:
    stat = os.stat(path, follow_symlinks=False)
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _warn_of_file(path: Path, reason: Exception) -> None:
    kept = container.set_aside(path)
    fate = f"it is now {kept.name}" if kept else "it stays where it is"
    warnings.warn(
        f"the cache {path} is not used: {reason}; {fate}, and the graph is compiled anew", UserWarning, stacklevel=6
    )
