# SPDX-License-Identifier: Apache-2.0
"""Measures calls in captured graphs. ``replay_costs`` has the table over all operators."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.python.device import replay_costs
from tests.python.device.replay_costs import Call


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def capture(fn: Callable[[], Any]) -> tuple[torch.npu.NPUGraph, Any]:
    """Returns the graph of ``fn()`` and its results. ``torch.npu.graph`` is not used, since it collects garbage first,
    which takes long."""
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
    """Replays ``graph``, and returns the bytes of device memory that the replay takes and does not give back."""
    before = torch.npu.memory_allocated()
    graph.replay()
    return torch.npu.memory_allocated() - before


def copied_by_replay(graph: torch.npu.NPUGraph) -> int:
    return graph._memory()["copied_bytes_per_replay"]


def forced_copies(results: Any, call: Call) -> int:
    """Returns the bytes of results that a call allocates. In a graph they have fixed addresses, so a replay may have to
    copy into them."""
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
    """Checks that the capture of a call leaves its arguments as they are, and that a replay does what an eager call
    does, keeps no memory, and copies no more than the results that the call allocates. ``repeats``: the call gives the
    same each time."""
    args, kwargs = call
    expected, given = copy.deepcopy(call), copy.deepcopy(call)
    want = op(*expected[0], **expected[1])
    graph, got = capture(lambda: op(*args, **kwargs))
    _check_same(call, given, "the capture changed arguments")
    kept, copied = kept_by_replay(graph), copied_by_replay(graph)
    assert kept <= 0, f"a replay keeps {kept} bytes"
    forced = forced_copies(got, call)
    if name := replay_costs.operator_name(op):
        replay_costs.add(name, replay_costs.Cost(1, kept, copied, min(copied, forced)))
    assert copied <= forced, f"a replay copies {copied} bytes, its results have {forced}"
    if repeats:
        _check_same((got, call), (want, expected), "a replay computes something else")
