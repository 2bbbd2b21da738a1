# SPDX-License-Identifier: Apache-2.0
"""Makes the calls of a script again, as npugraph, eager mode and Inductor compute them, in turns, and times them."""

from __future__ import annotations

import dataclasses
import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from npugraph.artifact import Artifact
from npugraph.bench.calls import Call, Function, first_line
from npugraph.report.facts import judge

OURS, EAGER, INDUCTOR = "npugraph", "eager", "Inductor"

_TURN_NS = 20_000_000  # the time of one turn
_WARM_UP_CALLS = 3
_LEAST_TURNS = 3


@dataclasses.dataclass
class Row:
    """What was measured of a function. ``milliseconds`` has the median of a call by side. ``bound`` is a key of
    ``npugraph.report.verdict.KINDS``, or "" if no Program ran, and ``share`` its part of the time. ``problems`` says by
    side why it was not timed."""

    function: Function
    milliseconds: dict[str, float] = dataclasses.field(default_factory=dict)
    bound: str = ""
    share: float = 0.0
    problems: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def has_gradients(self) -> bool:
        return self.function.call is not None and self.function.call.has_gradients

    def ratio(self, other: str) -> float | None:
        """The time of npugraph over that of another side."""
        if not {OURS, other} <= self.milliseconds.keys():
            return None
        return self.milliseconds[OURS] / self.milliseconds[other]


@dataclasses.dataclass
class _Side:
    """``call`` is timed. ``restore``, which is not, undoes what it wrote."""

    name: str
    call: Callable[[], Any]
    restore: Callable[[], None]
    nanoseconds: list[int] = dataclasses.field(default_factory=list)

    def take(self, count: int) -> int:
        """Times so many calls, and returns the time of the last one."""
        for _ in range(count):
            self.restore()
            begin = time.perf_counter_ns()
            self.call()
            self.nanoseconds.append(time.perf_counter_ns() - begin)
        return self.nanoseconds[-1]


@dataclasses.dataclass(frozen=True)
class Effort:
    """The sides take turns for so many ``seconds``, or ``turns`` times each if that is given."""

    seconds: float
    turns: int | None = None

    def is_enough(self, turns: int, began: float) -> bool:
        if self.turns is not None:
            return turns >= self.turns
        return turns >= _LEAST_TURNS and time.monotonic() - began >= self.seconds


def measure(function: Function, artifacts: Sequence[Artifact], effort: Effort, with_inductor: bool) -> Row:
    """Times the first call of a function. ``artifacts`` are all those that may run in it."""
    row = Row(function)
    call = function.call
    if call is None:
        row.problems[OURS] = function.problem
        return row
    with call.settings.again():
        restore = _restorer(call)
        try:
            ours = _Side(OURS, _maker(call, function.run, call.arguments), restore)
            ran = _ran(ours, artifacts)
            for artifact in ran:
                artifact.refresh()  # it times the first runs of a capture
            sides = [_Side(EAGER, _maker(call, function.eager, call.arguments), restore), ours]
            sides[0].take(1)
        except Exception as error:
            row.problems[OURS] = first_line(error)
            return row
        if with_inductor:
            try:
                sides.append(_Side(INDUCTOR, _compiled_by_inductor(function, call), restore))
                sides[-1].take(1)
            except Exception as error:
                row.problems[INDUCTOR] = first_line(error)
                del sides[2:]
        _take_turns(sides, effort)
        restore()  # of parameters there are no copies
    row.milliseconds = {side.name: statistics.median(side.nanoseconds) / 1e6 for side in sides}
    row.bound, row.share = _bound(ran)
    return row


def _restorer(call: Call) -> Callable[[], None]:
    """Returns a function that undoes what the call writes."""
    written = [call.arguments[i] for i in call.written]
    saved = [tensor.detach().clone() for tensor in written]

    def restore() -> None:
        torch.clear_autocast_cache()  # the script leaves autocast between calls
        with torch.no_grad():
            for tensor, old in zip(written, saved, strict=True):
                tensor.copy_(old)

    return restore


def _maker(call: Call, run: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], Any]:
    """Returns a function that makes the call by means of ``run``, with its gradients."""
    inputs = [argument for argument in call.arguments if isinstance(argument, torch.Tensor) and argument.requires_grad]
    return _Step(run, arguments, inputs) if call.has_gradients and inputs else lambda: run(*arguments)


class _Step:
    """A call of a function, and one of its gradients."""

    def __init__(self, run: Callable[..., Any], arguments: Sequence[Any], inputs: list[torch.Tensor]) -> None:
        self._run, self._arguments, self._inputs = run, arguments, inputs
        self._ones: list[torch.Tensor] = []

    def __call__(self) -> None:
        results = [r for r in self._run(*self._arguments) if isinstance(r, torch.Tensor) and r.requires_grad]
        self._ones = self._ones or [torch.ones_like(result) for result in results]
        torch.autograd.grad(results, self._inputs, self._ones, allow_unused=True)


def _compiled_by_inductor(function: Function, call: Call) -> Callable[[], Any]:
    """Returns a function that makes the call as Inductor compiles it, without the guards of Dynamo."""
    from torch._inductor.compile_fx import compile_fx

    made: list[Callable[[], Any]] = []

    def backend(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled = compile_fx(graph, inputs)

        def run(*arguments: Any) -> Any:
            made.append(_maker(call, compiled, arguments))
            return compiled(*arguments)

        return run

    # Dynamo does not trace modules that were made while it compiled, as this one was.
    traced = fx.GraphModule(function.eager, function.eager.graph)
    with torch.compiler.set_stance("default"):
        torch.compile(traced, backend=backend, fullgraph=True, dynamic=function.is_dynamic)(*call.arguments)
    return made[0]


def _take_turns(sides: Sequence[_Side], effort: Effort) -> None:
    counts = {side.name: max(1, _TURN_NS // max(side.take(_WARM_UP_CALLS), 1)) for side in sides}
    for side in sides:
        side.nanoseconds.clear()
    order = random.Random(0)
    began = time.monotonic()
    for turn in itertools.count():
        if effort.is_enough(turn, began):
            return
        for side in order.sample(sides, len(sides)):  # no side always follows the same other one
            count = counts[side.name]
            if count > 1:  # the call before brings back what another side displaced from the caches
                side.restore()
                side.call()
            side.take(count)


def _ran(side: _Side, artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Makes a call, and returns the artifacts that ran in it, without those that run in others."""
    side.restore()
    before = [_runs(artifact) for artifact in artifacts]
    side.call()
    ran = [artifact for artifact, old in zip(artifacts, before, strict=True) if _runs(artifact) > old]
    nested = {id(inner) for artifact in ran for inner in artifact.nested}
    return [artifact for artifact in ran if id(artifact) not in nested]


def _runs(artifact: Artifact) -> int:
    counters = artifact.counters
    return counters["replays"] + counters["eager_runs"]


def _bound(ran: Sequence[Artifact]) -> tuple[str, float]:
    """What takes most of the time of all artifacts together, and its share."""
    parts: Counter[str] = Counter()
    for artifact in ran:
        parts.update(judge(artifact).parts)
    if not parts:
        return "", 0.0
    bound = max(parts, key=parts.__getitem__)
    return bound, parts[bound] / max(sum(parts.values()), 1)
