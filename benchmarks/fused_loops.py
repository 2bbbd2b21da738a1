# SPDX-License-Identifier: Apache-2.0
"""Measures chains of elementwise operators and reductions that a compiler should turn into one pass over memory. The
sizes of the largest tensor fit the second-level cache, the last one, and none. The limit is the time of a plain or a
streaming copy, whichever is faster, for the bytes of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from benchmarks import machine, peers, sides
from benchmarks.harness import Request, Result, Side, measure
from benchmarks.model_case import flatten_outputs, relative_error

NAME = "fused_loops"
WIDTH = 1024  # elements of a row
HEAD = 128  # elements of a row of one head, in rope
SIZES = {"256 KB": 1 << 18, "8 MB": 1 << 23, "256 MB": 1 << 28}
QUICK_SIZES = ("256 KB", "8 MB")
MOST_SAMPLES = 7
COMPARED_BYTES = 1 << 24  # of an output; float64 references of the largest tensors would not fit into memory

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Loop:
    """A case that computes ``function(*tensors)``. ``shapes(rows)`` returns the shapes of the fp32 tensors; the first
    has ``rows`` * WIDTH elements."""

    name: str
    function: Function
    shapes: Callable[[int], list[tuple[int, ...]]]


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (WIDTH,), weight, bias)


def rms_norm_quantise(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises to symmetric int8 with a scale for each row."""
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    scale = y.abs().amax(-1, keepdim=True) / 127
    return (y / scale).round().to(torch.int8), scale


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x)


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def residual_chain(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + a
    return y, torch.relu(y * scale + b)


LOOPS = (
    Loop("softmax", softmax, lambda rows: [(rows, WIDTH)]),
    Loop("layer_norm", layer_norm, lambda rows: [(rows, WIDTH), (WIDTH,), (WIDTH,)]),
    Loop("rms_norm_quantise", rms_norm_quantise, lambda rows: [(rows, WIDTH), (WIDTH,)]),
    Loop("swiglu", swiglu, lambda rows: [(rows, WIDTH)] * 2),
    Loop("gelu", gelu, lambda rows: [(rows, WIDTH)]),
    Loop("rope", rope, lambda rows: [(WIDTH // HEAD, rows, HEAD), (rows, HEAD), (rows, HEAD)]),
    Loop("residual_chain", residual_chain, lambda rows: [*[(rows, WIDTH)] * 3, (WIDTH,)]),
)


def run(request: Request) -> Iterator[Result]:
    copy_speed = max(machine.limits(["copy", "copy_streaming"]).values())
    chosen = [name for name in request.sides if name in (*sides.DEFAULT_SIDES, *peers.INDUCTOR) and name != "dynamo"]
    for size in QUICK_SIZES if request.quick else SIZES:
        for loop in LOOPS:
            if request.wants(NAME, f"{loop.name} {size}"):
                yield compare(loop, size, chosen, min(request.samples, MOST_SAMPLES), copy_speed)


def compare(loop: Loop, size: str, side_names: Sequence[str], samples: int, copy_speed: float) -> Result:
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator) for shape in loop.shapes(SIZES[size] // (4 * WIDTH))]
    eager = flatten_outputs(loop.function(*tensors))
    moved = sum(t.numel() * t.element_size() for t in (*tensors, *eager))
    compared = []
    for name in side_names:
        call = peers.compiled(name, loop.function)
        outputs = flatten_outputs(call(*tensors))
        compared.append(Side(name, lambda call=call: call(*tensors), error=largest_error(loop, tensors, outputs)))
    result = measure(NAME, f"{loop.name} {size}", compared, samples)
    result.limit, result.limit_seconds = "share of copy speed", moved / copy_speed
    return result


def largest_error(loop: Loop, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> float:
    """Returns the error against float64 on the first rows, whose results depend on no other rows. Integers may be one
    step off: if the exact value is in the middle between two integers, either is right."""
    rows = max(1, COMPARED_BYTES // (4 * WIDTH))
    head = [first_rows(t, rows) for t in tensors]
    errors = []
    for y, exact in zip(outputs, flatten_outputs(loop.function(*(t.double() for t in head))), strict=True):
        y = first_rows(y, rows)
        if y.dtype == torch.int8:
            y = torch.where((y - exact).abs() <= 1, exact, y.double())
        errors.append(relative_error(y.float(), exact))
    return max(errors)


def first_rows(t: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns the first rows of ``t``. Rows are the dimension before the last; a vector has none and is returned
    whole."""
    return t if t.dim() < 2 else t.narrow(-2, 0, min(rows, t.shape[-2]))
