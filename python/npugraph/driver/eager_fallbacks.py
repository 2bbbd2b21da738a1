# SPDX-License-Identifier: Apache-2.0
"""Handles calls whose inputs or streams are not as the compile saw them. Dynamo does not guard on that. These calls run
the graph operator by operator and are counted under a reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from npugraph import _C
from npugraph.driver.shared_storages import are_shared_as, shared_storages
from npugraph.fx.streams.mark_streams import are_different

_WHY_NOT_TRACED = "do not trace compiled graphs"


def eagerly(gm: fx.GraphModule) -> Callable[..., Any]:
    """Returns a function of a reason and the inputs of the graph. It counts the reason and runs the graph as it was
    written."""
    eager = torch._dynamo.disable(gm.forward, reason="inputs or streams are not as they were before")
    eager = labelled("fx_run_eagerly", eager)

    def call(reason: str, *args: Any) -> Any:
        _C.count(reason)
        return eager(*args)

    return call


def labelled(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with a range in traces of torch's profiler, if a profiler is on."""

    def call(*args: Any) -> Any:
        with torch.profiler.record_function(label) if torch.autograd._profiler_enabled() else contextlib.nullcontext():
            return function(*args)

    return call


def while_streams_differ(run: Callable[..., Any], gm: fx.GraphModule, streams: Sequence[int]) -> Callable[..., Any]:
    """Returns ``run``, whose work on two of the streams may overlap, for calls in which all streams are different. A
    call in which two are the same stream runs the graph as it was written. This happens when a function that names a
    stream is called on that stream."""
    if len(streams) < 2:
        return run
    eager = eagerly(gm)

    def call(*args: Any) -> Any:
        return run(*args) if are_different(streams) else eager("merged_streams", *args)

    return torch._dynamo.disable(call, reason=_WHY_NOT_TRACED)


def while_places_hold(run: Callable[..., Any], gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Returns ``run``, which was compiled for ``inputs`` as they lie in memory. A call runs the graph as it was written
    if its inputs share storages in another way, overlap although none of ``inputs`` did, or lie elsewhere in a
    storage."""
    eager, shared = eagerly(gm), shared_storages(inputs)

    def call(*args: Any) -> Any:
        reason = "overlapping_inputs"
        if not shared or are_shared_as(args, shared):
            try:
                return run(*args)
            except _C.InputsOverlap:  # nothing has run
                pass
            except _C.InputElsewhere:  # nothing has run either
                reason = "shifted_inputs"
        return eager(reason, *args)

    return torch._dynamo.disable(call, reason=_WHY_NOT_TRACED)
