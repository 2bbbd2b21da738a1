# SPDX-License-Identifier: Apache-2.0
"""Calls in which an input that a graph writes overlaps another input. The graph was traced as if no inputs did, so such
calls run as the program wrote them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from npugraph import _C
from npugraph.driver.calls import boxed_call
from npugraph.driver.eager_fallbacks import eagerly
from npugraph.driver.entry import OperatorGraph, Route


def written_inputs(graph: OperatorGraph) -> list[int]:
    """Which inputs the graph writes, as positions among its inputs."""
    copies = graph.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    written = {copy.args[0] for copy in copies}
    return [i for i, node in enumerate(graph.gm.graph.find_nodes(op="placeholder")) if node in written]


def eager_while_overlapping(run: Callable[..., Any], graph: OperatorGraph) -> Callable[..., Any]:
    """Returns ``run``, the function of a graph of which no part sees all inputs, for calls whose written inputs overlap
    no others. A call of a backward graph whose inputs do is an error, because the program does not have this graph."""
    written = written_inputs(graph)
    if not written:
        return run
    if graph.route is Route.RECORDED:
        eager = eagerly(graph.entry.gm)
        return lambda *args: eager("overlapping_inputs", *args) if _overlap(args, written) else run(*args)
    if graph.route is not Route.BACKWARD:
        graph.entry.depends_on_places = True  # so that the error is caught around AOTAutograd

    def boxed(args: list[Any]) -> Any:
        if _overlap(args, written):
            raise _C.InputsOverlap(
                f"the {graph.route.phase} graph {graph.name!r} writes an input that overlaps another one, which was "
                "not so at compile time; give the function a clone of one of them"
            )
        return run(args)

    return boxed_call(boxed)


def _overlap(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    """Whether an input that is written overlaps another one. Takes O(n log n) of time, in each call."""
    is_written = [False] * len(inputs)
    for index in written:
        is_written[index] = True
    spans = sorted((*_span(value), is_written[i]) for i, value in enumerate(inputs) if isinstance(value, torch.Tensor))
    last_end = last_written_end = 0  # of the spans that begin before the next one
    for begin, end, writes in spans:
        if begin < (last_end if writes else last_written_end):
            return True
        last_end = max(last_end, end)
        if writes:
            last_written_end = max(last_written_end, end)
    return False


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses between which a strided tensor lies; an empty range for one without elements or strides."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return 0, 0
    begin = tensor.data_ptr()
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()
