# SPDX-License-Identifier: Apache-2.0
"""Compares each task of each run with what torch computes from the same operands.

The oracle is the graph as it was imported. It runs node by node after each run of the Program. If a task wrote a value
of the graph, that value is compared, and then replaces the value of the oracle. So each task is judged by what it
computed from its own operands. A value without a name after the passes is judged with the next task that has one.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from npugraph import _C, artifacts
from npugraph.artifact import Artifact
from npugraph.ladder.compare import Tolerance, has_nan, plain
from npugraph.ladder.values import MISSING, is_repeatable, run_nodes

Operand = tuple[str, torch.Tensor]  # the name of its buffer, and what it held


@dataclasses.dataclass(frozen=True)
class Finding:
    """A task that went wrong in the ``run``-th run of an artifact. ``cause`` is the pass from which on graphs compute
    what the task computed, or else the code of the task; "" if only a NaN is reported."""

    artifact: str
    run: int
    task: int
    name: str
    kind: str
    origin: str
    source: str
    problem: str
    cause: str
    inputs: list[Operand]
    results: list[Operand]
    wanted: torch.Tensor | None

    def tensors(self) -> dict[str, Any]:
        """The tensors that are saved beside the report, on the host: ``inputs`` and ``results`` by name of their
        buffers, and ``wanted``."""
        return {
            "inputs": {name: plain(value) for name, value in self.inputs},
            "results": {name: plain(value) for name, value in self.results},
            "wanted": None if self.wanted is None else plain(self.wanted),
        }


@dataclasses.dataclass
class _Run:
    """The records of one run."""

    number: int
    tasks: int
    inputs: dict[str, torch.Tensor]
    symbols: dict[str, Any]
    reads: dict[int, list[Operand]] = dataclasses.field(default_factory=dict)  # by task
    writes: dict[int, list[Operand]] = dataclasses.field(default_factory=dict)


class Stepper:
    """Watches all runs of the process while it is entered as a context manager. ``report`` gets the first task that
    goes wrong in each run. With ``looks_for_nan``, a NaN that no operand of its task had counts as wrong, too."""

    def __init__(self, tolerance: Tolerance, report: Callable[[Finding], None], looks_for_nan: bool = True) -> None:
        self.tolerance, self.report, self.looks_for_nan = tolerance, report, looks_for_nan
        self.runs = 0
        self.written = 0  # values that tasks wrote
        self.compared = 0  # those of them that were compared
        self._open: dict[tuple[int, str], _Run] = {}
        self._counts: dict[str, int] = defaultdict(int)
        self._known: weakref.WeakValueDictionary[str, Artifact] = weakref.WeakValueDictionary()

    def __enter__(self) -> Stepper:
        _C.set_task_watch(self._watch)
        return self

    def __exit__(self, *_: Any) -> None:
        _C.set_task_watch(None)

    def _watch(self, name: str, task: int, done: bool, operands: Sequence[tuple[str, str, Any]], start: Any) -> None:
        artifact = self._find(name)
        if artifact is None:
            return
        key = threading.get_ident(), name
        if start is not None:
            self._counts[name] += 1
            self._open[key] = _Run(self._counts[name], len(artifact.tasks), *start)
        run = self._open.get(key)
        if run is None:  # the run began before the watch
            return
        if not done:
            run.reads[task] = [
                (name, copy) for name, access, copy in operands if access != "write" and copy is not None
            ]
            return
        run.writes[task] = [(name, copy) for name, access, copy in operands if access != "read" and copy is not None]
        if task == run.tasks - 1:
            del self._open[key]
            self.runs += 1
            finding = self._judge(artifact, run)
            if finding is not None:
                self.report(finding)

    def _find(self, name: str) -> Artifact | None:
        if name not in self._known:
            self._known.update({artifact.name: artifact for artifact in artifacts()})
        return self._known.get(name)

    def _judge(self, artifact: Artifact, run: _Run) -> Finding | None:
        oracle = _Oracle(artifact, run, "import")
        wrong = oracle.differences(self.tolerance)
        self.written += sum(map(len, run.writes.values()))
        self.compared += oracle.compared
        first = min(wrong, default=None)
        nan = self._first_nan(run) if self.looks_for_nan else None
        if nan is not None and (first is None or nan[0] < first):
            return _finding(artifact, run, *nan, "", None)
        if first is None:
            return None
        problem, wanted = wrong[first]
        return _finding(artifact, run, first, problem, _cause(artifact, run, first, self.tolerance), wanted)

    def _first_nan(self, run: _Run) -> tuple[int, str] | None:
        written: set[str] = set()
        for task in sorted(run.writes):
            given = [name for name, value in run.reads[task] if has_nan(value)]
            fresh = [name for name in given if name in run.inputs and name not in written]
            if fresh:
                return task, f"the input {fresh[0]} of the graph holds a NaN already"
            made = [name for name, value in run.writes[task] if has_nan(value)]
            if made and not given:
                return task, f"{made[0]} is the first value with a NaN; no operand of the task has one"
            written.update(name for name, _ in run.writes[task])
        return None


class _Oracle:
    """A stage of an artifact's graph, and those of its values that a run wrote."""

    def __init__(self, artifact: Artifact, run: _Run, stage: str) -> None:
        self.gm = artifact.to_fx(stage)
        self.run = run
        self.written = self._match(artifact)
        self.compared = 0  # the number of values that differences() compared

    def differences(self, tolerance: Tolerance) -> dict[int, tuple[str, torch.Tensor]]:
        """The differences by task: a text, and the oracle's value."""
        found: dict[int, tuple[str, torch.Tensor]] = {}

        def visit(node: fx.Node, value: Any) -> Any:
            if node not in self.written:
                return value
            task, name, seen = self.written[node]
            if value is MISSING or not is_repeatable(node):
                return seen
            if not isinstance(value, torch.Tensor) or seen.numel() != value.numel() or seen.dtype != value.dtype:
                return value
            self.compared += 1
            seen = seen.reshape(value.shape)
            text = tolerance.difference(seen, value)
            if text is not None and task not in found:
                found[task] = f"{name}: {text}", value.detach().clone()
            return _take_over(value, seen)

        inputs = {name: value.clone() for name, value in self.run.inputs.items()}
        run_nodes(self.gm, inputs | self.run.symbols, visit, is_repeatable)
        return found

    def _match(self, artifact: Artifact) -> dict[fx.Node, tuple[int, str, torch.Tensor]]:
        """Finds the node of the graph whose value each written operand is."""
        of_name = {node.meta["value"]: node for node in self.gm.graph.nodes if "value" in node.meta}
        names = _Names(artifact)
        old_names = _old_names(_values(self.gm), names.values, _outputs(self.gm), names.outputs)
        written: dict[fx.Node, tuple[int, str, torch.Tensor]] = {}
        for task, info in enumerate(artifact.tasks):
            for name, seen in names.of_operands(info.origin.split(", "), self.run.writes.get(task, ())):
                node = of_name.get(old_names.get(name, name))
                if node is not None:
                    written[node] = task, name, seen
        return written


class _Names:
    """The names of the graph's values that the tasks of an artifact write."""

    def __init__(self, artifact: Artifact) -> None:
        self.of_origin: dict[str, list[str]] = defaultdict(list)  # names in the order of the graph
        self.memory: dict[str, str] = {}  # by value: the value whose buffer it has
        self.order: dict[str, int] = {}
        gm = artifact.to_fx()
        self.values, self.outputs = _values(gm), _outputs(gm)
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                self.memory[node.target] = node.target
            elif "value" in node.meta:
                name = node.meta["value"]
                self.of_origin[node.meta["origin"]].append(name)
                self.memory[name] = self._memory_of(node, name)
                self.order[name] = len(self.order)

    def _memory_of(self, node: fx.Node, name: str) -> str:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable or not isinstance(node.args[0], fx.Node):
            return name
        written = node.args[0].meta.get("value", node.args[0].target)
        return self.memory.get(written, name)

    def of_operands(self, origins: Sequence[str], operands: Sequence[Operand]) -> Iterator[Operand]:
        """Names the operands that a task for ``origins`` wrote. An operand in memory of values that the task makes is
        the last of these. An operand in memory of other tasks' values is the last value that is left, and so on
        backwards."""
        made = [name for origin in origins for name in self.of_origin[origin]]
        made.sort(key=self.order.__getitem__)
        left = list(made)
        elsewhere = []
        for buffer, seen in operands:
            here = [name for name in made if self.memory[name] == buffer]
            if here:
                yield here[-1], seen
                left.remove(here[-1])
            elif buffer in self.memory:
                elsewhere.append(seen)
        yield from zip(reversed(left), reversed(elsewhere), strict=False)


def _values(gm: fx.GraphModule) -> list[str]:
    return [node.meta["value"] for node in gm.graph.nodes if "value" in node.meta]


def _outputs(gm: fx.GraphModule) -> list[str | None]:
    (output,) = gm.graph.find_nodes(op="output")
    return [node.meta.get("value") if isinstance(node, fx.Node) else None for node in output.args[0]]


def _old_names(
    old: Sequence[str], new: Sequence[str], old_outputs: Sequence[str | None], new_outputs: Sequence[str | None]
) -> dict[str, str]:
    """Maps the names of values that passes made anew to their names in an earlier graph. Results are the same ones in
    the same order. A value that takes the place of ``x`` is named ``x_1``."""
    known, left = set(old), set(old) - set(new)
    found = {name: name.rpartition("_")[0] for name in new if name not in known}
    found = {name: base for name, base in found.items() if base in left}
    pairs = zip(new_outputs, old_outputs, strict=False)
    return found | {name: base for name, base in pairs if name is not None and base in left and name not in known}


def _take_over(value: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """``seen``, written to the memory of ``value`` if that has a place for each element."""
    if torch._debug_has_internal_overlap(value) != 0:
        return seen.to(value.device)
    return value.copy_(seen)


def _cause(artifact: Artifact, run: _Run, task: int, tolerance: Tolerance) -> str:
    stages = artifact._core.graph_stages()
    if task in _Oracle(artifact, run, stages[-1]).differences(tolerance):
        hosts = {
            "aten": "the call of the operator",
            "python": "the call of the function",
            "nested": "the graphs that it runs",
        }
        return hosts.get(artifact.tasks[task].kind, "the code of the task")
    right, wrong = 0, len(stages) - 1  # a stage that does not compute what the task did, and one that does
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if task in _Oracle(artifact, run, stages[middle]).differences(tolerance):
            right = middle
        else:
            wrong = middle
    return f"graph pass {stages[wrong]}"


def _finding(
    artifact: Artifact, run: _Run, task: int, problem: str, cause: str, wanted: torch.Tensor | None
) -> Finding:
    info = artifact.tasks[task]
    return Finding(
        artifact=artifact.name,
        run=run.number,
        task=task,
        name=info.name,
        kind=info.kind,
        origin=info.origin,
        source=info.source,
        problem=problem,
        cause=cause,
        inputs=run.reads[task],
        results=run.writes[task],
        wanted=wanted,
    )
