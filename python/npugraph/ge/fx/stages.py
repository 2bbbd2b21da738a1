# SPDX-License-Identifier: Apache-2.0
"""The stages in which a graph runs whose calls are partly eager: by turns eager and a graph of GE.

    y = relu(x); i = argsort(y); z = y * 2; r = y[i] + z     with argsort eager
    stage 1 (GE): y, z      stage 2 (eager): i      stage 3 (GE): r

A call is in the first stage of its kind behind the calls that it needs. So there are as few stages of GE as the
longest chain has that goes back and forth. Eager calls then move to the last stage that serves their readers, which
brings them together. So do calls of GE that need no others of GE, such as masks, and casts of weights, whose results
are then not kept from stage to stage."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from torch import fx

from npugraph.ge.fx.reads import Reads, call_of, is_copy
from npugraph.ge.fx.values import is_number


class Stage(NamedTuple):
    is_eager: bool
    calls: list[fx.Node]


class Stages:
    """``eager`` are the calls that run eagerly. So do those whose result is a number, which no graph of GE returns.
    Copies into inputs run with the graph of GE that computes the value, if nothing reads the old value later, and
    otherwise eagerly."""

    def __init__(self, reads: Reads, eager: Collection[fx.Node]) -> None:
        self._reads = reads
        self._eager = {*eager, *(call for call in reads.calls if is_number(call.meta.get("val")))}
        self._numbers: dict[fx.Node, int] = {}  # even ones are eager
        for call in reads.calls:
            self._numbers[call] = self._first(call)
        self._move_to_readers()

    def of(self, result: fx.Node) -> int:
        """The number of the stage of a call or of an item of its results."""
        return self._numbers[call_of(result)]

    def in_order(self) -> list[Stage]:
        """The stages that have calls, with the calls in the order of the graph."""
        calls: dict[int, list[fx.Node]] = {}
        for call, number in self._numbers.items():
            calls.setdefault(number, []).append(call)
        return [Stage(number % 2 == 0, calls[number]) for number in sorted(calls)]

    def _first(self, call: fx.Node) -> int:
        least = max((self._numbers[needed] for needed in self._reads.before[call]), default=0)
        if is_copy(call) and call not in self._eager and not self._runs_with_its_value(call, least):
            self._eager.add(call)
        is_of_kind = (least % 2 == 0) == (call in self._eager)
        return least if is_of_kind else least + 1

    def _runs_with_its_value(self, copy: fx.Node, least: int) -> bool:
        written, value = copy.args[:2]
        if least % 2 == 0 or self._reads.is_shared(written):  # type: ignore[arg-type]
            return False  # graphs of GE write no memory that other inputs of theirs lie in
        return any(self.of(result) == least for result in self._reads.made_of(value))  # type: ignore[arg-type]

    def _move_to_readers(self) -> None:
        last = max((self._numbers[call] for call in self._eager), default=0)
        readers: dict[fx.Node, list[fx.Node]] = {call: [] for call in self._numbers}
        free: set[fx.Node] = set()  # calls of GE that need nothing of those that stay
        for call, needed in self._reads.before.items():
            for one in needed:
                readers[one].append(call)
            if call not in self._eager and all(one in free or one in self._eager for one in needed):
                free.add(call)
        for call in reversed(self._numbers):
            is_eager = call in self._eager
            latest = [self._numbers[reader] - ((reader in self._eager) != is_eager) for reader in readers[call]]
            if is_eager:
                self._numbers[call] = min(latest, default=last)
            elif call in free and latest:
                self._numbers[call] = min(latest)
