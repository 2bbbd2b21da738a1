# SPDX-License-Identifier: Apache-2.0
"""Checks of calls in compiled graphs, with views of their results."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import npugraph
from tests.python.device.drawn_calls import Call


def _views(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns views whose sizes depend only on those of ``x``, so that a graph for any sizes can have them."""
    if x.dim() == 0:
        return [x.unsqueeze(0)]
    return [x[:3], x[1:], x.transpose(0, -1)[1:], x.unsqueeze(0).select(1, -1) if x.shape[0] else x.flatten()]


def with_views(op: Any) -> Callable[..., list[torch.Tensor]]:
    """Returns a function that calls ``op`` and returns the results and views of them."""

    def function(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        results = [x for x in pytree.tree_leaves(op(*args, **kwargs)) if isinstance(x, torch.Tensor)]
        return results + [view for x in results for view in _views(x)]

    return function


def check_views_compiled(op: Any, call: Call) -> None:
    """Checks that a graph for any sizes gives the sizes and dtypes of eager mode, and runs nothing in Python."""
    torch.compiler.reset()
    earlier = set(npugraph.artifacts())
    function = with_views(op)
    args, kwargs = copy.deepcopy(call)
    wanted = function(*args, **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.DefectWarning)
        got = torch.compile(function, backend="npugraph_ex", dynamic=True)(*call[0], **call[1])
    for g, w in zip(got, wanted, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
    made = [artifact for artifact in npugraph.artifacts() if artifact not in earlier]
    assert made and not [task for artifact in made for task in artifact.tasks if task.kind == "python"]
