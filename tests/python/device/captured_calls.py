# SPDX-License-Identifier: Apache-2.0
"""What a call costs in a captured graph. The end of a run shows a table over all operators that it has called."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.python import tables

Call = tuple[Any, Any]


@dataclasses.dataclass
class Cost:
    """The most bytes of a replay, over all calls of an operator, and how many of these are results made anew."""

    calls: int = 0
    kept: int = 0
    copied: int = 0
    forced: int = 0

    def add(self, kept: int, copied: int, forced: int) -> None:
        self.calls += 1
        self.kept = max(self.kept, kept)
        if copied > self.copied:
            self.copied, self.forced = copied, forced


COSTS: dict[str, Cost] = {}


def _table() -> str:
    if not COSTS:
        return ""
    without = [name for name, cost in sorted(COSTS.items()) if cost.kept == cost.copied == 0]
    lines = [f"{'operator':<56}{'calls':>7}{'kept':>9}{'copied':>9}{'of which results':>18}"]
    for name, cost in sorted(COSTS.items()):
        if name not in without:
            lines.append(f"{name:<56}{cost.calls:>7}{cost.kept:>9}{cost.copied:>9}{cost.forced:>18}")
    lines.append(f"{len(without)} keep and copy nothing: {', '.join(without)}")
    return "\n".join(lines)


tables.TABLES["bytes that a replay of a captured operator keeps and copies"] = _table


def _name(op: Any) -> str:
    name = getattr(op, "_qualified_op_name", None) or getattr(op, "__name__", str(op))
    return name.replace("::", ".")


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def capture(fn: Callable[[], Any]) -> tuple[torch.npu.NPUGraph, Any]:
    """The graph of ``fn()``, and its results. ``torch.npu.graph`` collects garbage first, which takes long."""
    graph = torch.npu.NPUGraph()
    with torch.npu.stream(torch.npu.Stream()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="capture_end: the graph is empty")
        graph.capture_begin()
        try:
            results = fn()
        except BaseException:
            graph.reset()
            raise
        graph.capture_end()
    return graph, results


def kept_by_replay(graph: torch.npu.NPUGraph) -> int:
    """Bytes of the device that a replay takes and does not give back."""
    before = torch.npu.memory_allocated()
    graph.replay()
    return torch.npu.memory_allocated() - before


def copied_by_replay(graph: torch.npu.NPUGraph) -> int:
    return graph._memory()["copied_bytes_per_replay"]


def forced_copies(results: Any, call: Call) -> int:
    """Bytes of results that the API makes anew, and that stand at one address in a graph."""
    given = {x.untyped_storage().data_ptr() for x in _tensors(call)}
    made = [x for x in _tensors(results) if x.untyped_storage().data_ptr() not in given]
    return sum(x.nbytes for x in made)


def _check_same(got: Any, want: Any, what: str) -> None:
    for g, w in zip(_tensors(got), _tensors(want), strict=True):
        g, w = (x.detach().cpu().clone(memory_format=torch.contiguous_format) for x in (g, w))
        assert g.dtype == w.dtype and g.shape == w.shape, what
        assert torch.equal(g.flatten().view(torch.uint8), w.flatten().view(torch.uint8)) or torch.allclose(
            g.double(), w.double(), rtol=0, atol=0, equal_nan=True
        ), what


def check_captured(op: Any, call: Call, *, repeats: bool = True) -> None:
    """A captured call leaves its arguments as they are; a replay of it does what an eager call does (``repeats``: it
    gives the same each time), keeps no memory, and copies no more than the results that the API makes anew."""
    args, kwargs = call
    expected, given = copy.deepcopy(call), copy.deepcopy(call)
    want = op(*expected[0], **expected[1])
    graph, got = capture(lambda: op(*args, **kwargs))
    _check_same(call, given, "the capture changed arguments")
    kept, copied = kept_by_replay(graph), copied_by_replay(graph)
    assert kept <= 0, f"a replay keeps {kept} bytes"
    forced = forced_copies(got, call)
    COSTS.setdefault(_name(op), Cost()).add(kept, copied, min(copied, forced))
    assert copied <= forced, f"a replay copies {copied} bytes, its results have {forced}"
    if repeats:
        _check_same((got, call), (want, expected), "a replay computes something else")
