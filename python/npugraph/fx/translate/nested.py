# SPDX-License-Identifier: Apache-2.0
"""Control flow of torch (cond, while_loop, scan, map): which graphs a call runs, with which arguments.

These graphs become Programs of their own. The call becomes a task that runs them, depending on values that are known
only at a run (src/backend/bridge/nested_task.h).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

higher_order = torch.ops.higher_order


@dataclasses.dataclass(frozen=True)
class Part:
    """A graph that a call runs: the node that refers to it, and the arguments of its first run in order."""

    graph: fx.Node
    inputs: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Flow:
    """The graphs that a call runs. The first ``carried`` inputs take the results of the previous run, except in the
    first run. The ``sliced`` inputs behind these are slices of tensors. With ``keeps_turns``, the results are those of
    all runs."""

    kind: str
    parts: Sequence[Part]
    predicate: Any = 0
    carried: int = 0
    sliced: int = 0
    keeps_turns: bool = False


def _cond(predicate: Any, if_true: fx.Node, if_false: fx.Node, operands: Sequence[Any] = ()) -> Flow:
    return Flow("cond", [Part(if_true, operands), Part(if_false, operands)], predicate)


def _while_loop(condition: fx.Node, body: fx.Node, carried: Sequence[Any], more: Sequence[Any]) -> Flow:
    inputs = [*carried, *more]
    return Flow("while_loop", [Part(condition, inputs), Part(body, inputs)], carried=len(carried))


def _while_loop_stack_output(*args: Any) -> Flow:
    return dataclasses.replace(_while_loop(*args), keeps_turns=True)


def _scan(body: fx.Node, init: Sequence[Any], xs: Sequence[Any], more: Sequence[Any]) -> Flow:
    return Flow("scan", [Part(body, [*init, *xs, *more])], carried=len(init), sliced=len(xs))


def _map(body: fx.Node, xs: Sequence[Any], more: Sequence[Any]) -> Flow:
    return Flow("scan", [Part(body, [*xs, *more])], sliced=len(xs))


_FLOWS: dict[Any, Callable[..., Flow]] = {
    higher_order.cond: _cond,
    higher_order.while_loop: _while_loop,
    higher_order.while_loop_stack_output: _while_loop_stack_output,
    higher_order.scan: _scan,
    higher_order.map_impl: _map,
}


def flow_of(node: fx.Node) -> Flow | None:
    """The control flow of a call. None if the call is none of these operators, or if its keywords say that it writes
    its arguments."""
    read = _FLOWS.get(node.target)
    return None if read is None or node.kwargs else read(*node.args)


def own_copy(gm: fx.GraphModule) -> fx.GraphModule:
    """Copies a graph that is to be rewritten, and that others may still run."""
    return fx.GraphModule(gm, copy.deepcopy(gm.graph))
