# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of layers with quantised weights share: sizes, and the sides that they compare."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks import peers, sides
from benchmarks.harness import Request, Side
from benchmarks.model_case import relative_error

SIZES = (1024, 4096, 1024)
ROWS = {"1 row": 1, "32 rows": 32}


def layer_sides(model: torch.nn.Module, x: torch.Tensor, request: Request) -> list[Side]:
    """Returns the sides of the request, but Dynamo alone: eager mode, ours and Inductor."""
    known = {*sides.DEFAULT_SIDES, *peers.INDUCTOR} - {"dynamo"}
    return [layer_side(name, peers.compiled(name, model), model, x) for name in request.sides if name in known]


def layer_side(name: str, compiled: Callable[..., torch.Tensor], eager: torch.nn.Module, x: torch.Tensor) -> Side:
    """The error is that against the same codes in eager mode: another code would be another sum."""

    @torch.inference_mode()
    def call() -> torch.Tensor:
        return compiled(x)

    with torch.inference_mode():
        return Side(name, call, error=relative_error(call(), eager(x).double()))
