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
from npugraph.driver.entry import Route, Work


def written_inputs(work: Work) -> list[int]:
    """Which inputs the graph writes, as positions among its inputs."""
    copies = work.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    written = {copy.args[0] for copy in copies}
    return [i for i, node in enumerate(work.gm.graph.find_nodes(op="placeholder")) if node in written]


def while_apart(run: Callable[..., Any], work: Work) -> Callable[..., Any]:
    """Returns ``run``, the function of a graph of which no part sees all inputs, for calls whose written inputs overlap
    no others."""
    written = written_inputs(work)
    if not written:
        return run
    if work.route is Route.RECORDED:
        eager = eagerly(work.entry.gm)
        return lambda *args: eager("overlapping_inputs", *args) if _overlap(args, written) else run(*args)
    if work.route is not Route.BACKWARD:
        work.entry.depends_on_places = True  # so that the error is caught around AOTAutograd

    def boxed(args: list[Any]) -> Any:
        if _overlap(args, written):
            raise _C.InputsOverlap("a written input overlaps another input in a way that was not seen at compile time")
        return run(args)

    return boxed_call(boxed)


def _overlap(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    spans = [_span(value) for value in inputs]
    return any(
        spans[w][0] < end and begin < spans[w][1] for w in written for i, (begin, end) in enumerate(spans) if i != w
    )


def _span(value: Any) -> tuple[int, int]:
    """The addresses between which a strided tensor lies; an empty range for other values."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()
