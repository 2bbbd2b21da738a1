# SPDX-License-Identifier: Apache-2.0
"""Calls of control flow without writes. They stand for calls whose graphs write their arguments, or whose arguments or
results share memory (``carried_writes.py``), and do what these do in eager mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.utils import _maybe_run_with_interpreter
from torch._prims_common import is_contiguous_or_false

_cond = torch.ops.higher_order.cond
_while_loop = torch.ops.higher_order.while_loop

Graph = Callable[..., Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory that a call writes. ``members`` are the positions of the arguments in it, ``root`` is that of a tensor
    around them. ``is_whole`` if each of them is this tensor."""

    members: Sequence[int]
    root: int
    is_whole: bool


class Arguments:
    """The arguments of a call, and how they are passed to its graphs: the memories that the call writes, symbolic
    numbers that describe their members, and the other arguments. The arguments are ``count`` tensors and numbers;
    roots of memories may follow. ``storages`` are equal for those that share memory, and None for numbers."""

    def __init__(self, count: int, memories: Sequence[Memory], storages: Sequence[int | None], first: int = 0) -> None:
        self.positions = range(first, count)
        self.storages = storages
        kept = [dataclasses.replace(m, members=[i for i in m.members if i >= first]) for m in memories]
        self.memories = [memory for memory in kept if memory.members]
        inside = {i for memory in self.memories for i in memory.members}
        self.outside = [i for i in self.positions if i not in inside]
        self.everything = (count, memories, storages)

    def behind(self, first: int) -> Arguments:
        """The arguments from position ``first`` on."""
        return Arguments(*self.everything, first)


def unshared(values: Sequence[Any], storages: Sequence[int | None], seen: set[int]) -> list[Any]:
    """The values, or copies of those whose storages are ``seen``, to which all storages are added."""
    found = []
    for value, storage in zip(values, storages, strict=True):
        found.append(value.clone() if storage in seen else value)
        if storage is not None:
            seen.add(storage)
    return found


class Given:
    """The arguments of one call. Its graphs are passed ``bases`` and then ``rest``. The bases are row-major. Each has a
    storage of its own, and none lies in a storage of ``seen``."""

    def __init__(self, arguments: Arguments, args: Sequence[Any], seen: set[int] | None = None) -> None:
        self.arguments = arguments
        self.roots = [args[memory.root] for memory in arguments.memories]
        self.numbers: list[Any] = []
        self.root_strides = [None if is_contiguous_or_false(x) else self._passed(x.stride()) for x in self.roots]
        self.layouts = {
            i: self._passed((*args[i].shape, *args[i].stride(), args[i].storage_offset() - root.storage_offset()))
            for memory, root in zip(arguments.memories, self.roots, strict=True)
            for i in memory.members
            if not memory.is_whole
        }
        count, storages = len(self.roots), arguments.storages
        tensors = unshared(
            [*self.roots, *(args[i] for i in arguments.outside)],
            [*(storages[memory.root] for memory in arguments.memories), *(storages[i] for i in arguments.outside)],
            set() if seen is None else seen,
        )
        self.bases = [
            base if strides is None else base.clone(memory_format=torch.contiguous_format)
            for base, strides in zip(tensors[:count], self.root_strides, strict=True)
        ]
        self.rest = [*self.numbers, *tensors[count:]]

    def _passed(self, numbers: Sequence[Any]) -> list[Any]:
        """Numbers that graphs use. A graph cannot have the symbols of another one, so that symbolic numbers are passed;
        a list with the place stands for them."""
        found: list[Any] = []
        for number in numbers:
            if not isinstance(number, int):
                self.numbers.append(number)
                number = [len(self.numbers) - 1]
            found.append(number)
        return found

    def own_copies(self, bases: Sequence[torch.Tensor], rest: Sequence[Any]) -> list[torch.Tensor]:
        """Copies of the roots, with their strides, in a graph that was passed ``bases`` and ``rest``."""
        copies = []
        for base, strides in zip(bases, self.root_strides, strict=True):
            if strides is None:
                copies.append(base.clone())
            else:
                known = _known(strides, rest)
                made = torch.empty_strided(base.shape, known, dtype=base.dtype, device=base.device)
                copies.append(made.copy_(base))
        return copies

    def values(self, roots: Sequence[torch.Tensor], rest: Sequence[Any]) -> list[Any]:
        """The arguments in a graph with copies of the roots. Writes to the roots are seen in their members."""
        found = dict(zip(self.arguments.outside, rest[len(self.numbers) :], strict=True))
        for memory, root in zip(self.arguments.memories, roots, strict=True):
            for i in memory.members:
                found[i] = root if memory.is_whole else _window(root, _known(self.layouts[i], rest))
        return [found[i] for i in self.arguments.positions]

    def write_back(self, new: Sequence[torch.Tensor]) -> None:
        for root, value in zip(self.roots, new, strict=True):
            root.copy_(value)


def _known(numbers: Sequence[Any], passed: Sequence[Any]) -> list[Any]:
    return [passed[number[0]] if isinstance(number, list) else number for number in numbers]


def _window(root: torch.Tensor, layout: Sequence[Any]) -> torch.Tensor:
    rank = len(layout) // 2
    return root.as_strided(layout[:rank], layout[rank : 2 * rank], layout[-1])


def _row_major(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.contiguous() for tensor in tensors]


def _run_branch(
    predicate: Any, branches: Sequence[Graph], given: Given, aliased: Sequence[Collection[int]]
) -> list[Any]:
    """Runs one of two graphs, and writes into the arguments what it wrote. ``aliased`` are, for each branch, the
    positions of results that lie in memory of arguments or of other results."""
    count = len(given.bases)

    def pure(branch: Graph, fresh: Collection[int]) -> Graph:
        def run(*passed: Any) -> tuple[Any, ...]:
            own = given.own_copies(passed[:count], passed[count:])
            results = branch(*given.values(own, passed[count:]))
            results = [result.clone() if i in fresh else result for i, result in enumerate(results)]
            return (*results, *_row_major(own))

        return run

    results = _cond(predicate, *map(pure, branches, aliased), (*given.bases, *given.rest))
    split = len(results) - count
    given.write_back(results[split:])
    return list(results[:split])


class PureCond(torch.nn.Module):
    """A call of ``cond``, of the predicate, the arguments and the roots. ``aliased`` as in ``_run_branch``."""

    def __init__(self, graphs: Sequence[Any], arguments: Arguments, aliased: Sequence[Collection[int]]) -> None:
        super().__init__()
        self.graphs = torch.nn.ModuleList(graphs)
        self.arguments = arguments
        self.aliased = aliased

    def forward(self, predicate: Any, *args: Any) -> list[Any]:
        branches = [_maybe_run_with_interpreter(graph) for graph in self.graphs]
        return _run_branch(predicate, branches, Given(self.arguments, args), self.aliased)


class PureLoop(torch.nn.Module):
    """A call of ``while_loop``, of the arguments and the roots. The loop passes on the first ``carried`` arguments.
    ``of_condition`` and ``of_body`` are the positions of the arguments that the two graphs write."""

    def __init__(
        self,
        graphs: Sequence[Any],
        arguments: Arguments,
        carried: int,
        of_condition: Collection[int],
        of_body: Collection[int],
    ) -> None:
        super().__init__()
        self.graphs = torch.nn.ModuleList(graphs)
        self.arguments = arguments
        self.carried = carried
        self.of_condition = of_condition
        self.of_body = of_body
        # A value to begin with may lie in memory that is written. Those of later turns have memory of their own.
        self.is_first_apart = any(i < carried for memory in arguments.memories for i in memory.members)

    def forward(self, *args: Any) -> list[Any]:
        condition, body = map(_maybe_run_with_interpreter, self.graphs)
        if self.is_first_apart or self.of_condition:
            return self._asked_in_body(condition, body, args)
        return self._run(condition, body, *self._begin(args))

    def _begin(self, args: Sequence[Any]) -> tuple[list[Any], Given]:
        """The values of the first turn, and the arguments of all turns."""
        seen: set[int] = set()
        carried = unshared(args[: self.carried], self.arguments.storages[: self.carried], seen)
        return carried, Given(self.arguments.behind(self.carried), args, seen)

    def _run(self, condition: Graph, body: Graph, carried: Sequence[Any], given: Given) -> list[Any]:
        """Runs the loop, where ``body`` alone writes, and only what is not carried."""
        turn, count = len(carried), len(given.bases)

        def goes_on(*passed: Any) -> Any:
            roots, rest = passed[turn : turn + count], passed[turn + count :]
            if any(not memory.is_whole for memory in given.arguments.memories):
                roots = given.own_copies(roots, rest)  # of which it is known where their storages begin
            return condition(*passed[:turn], *given.values(roots, rest))

        def pure(*passed: Any) -> tuple[Any, ...]:
            bases, rest = passed[turn : turn + count], passed[turn + count :]
            own = given.own_copies(bases, rest)
            results = body(*passed[:turn], *given.values(own, rest))
            return (*results, *_row_major(own))

        results = _while_loop(goes_on, pure, (*carried, *given.bases), tuple(given.rest))
        given.write_back(results[turn:])
        return list(results[:turn])

    def _asked_in_body(self, condition: Graph, body: Graph, args: Sequence[Any]) -> list[Any]:
        """Runs a loop that carries the answer of the condition, and whose body asks for the next one. The first turn
        comes before the loop if it reads or writes other memory than later ones."""
        count, written = self.carried, [i for i in self.of_body if i < self.carried]

        def turn(*values: Any) -> tuple[Any, ...]:
            results = body(*values[:count], *values[count:])
            return (*results, _as_tensor(condition(*results, *values[count:])))

        def later_turn(*values: Any) -> tuple[Any, ...]:
            carried = [value.clone() if i in written else value for i, value in enumerate(values[:count])]
            return turn(*carried, *values[count + 1 :])

        arguments = args[: self.arguments.positions.stop]
        goes_on = _as_tensor(condition(*arguments))

        def no_turn(*values: Any) -> tuple[Any, ...]:
            stop = torch.zeros((), dtype=torch.bool, device=goes_on.device)
            return (*(value.clone() if isinstance(value, torch.Tensor) else value for value in values[:count]), stop)

        if self.is_first_apart:
            carried = _run_branch(goes_on, (turn, no_turn), Given(self.arguments, args), ((), ()))
            given = Given(self.arguments.behind(count), args)
        else:
            carried, given = self._begin(args)
            carried.append(goes_on)
        return self._run(lambda *values: values[count].clone(), later_turn, carried, given)[:count]


def _as_tensor(answer: Any) -> torch.Tensor:
    return answer if isinstance(answer, torch.Tensor) else torch.full((), answer, dtype=torch.bool)
