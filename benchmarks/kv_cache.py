# SPDX-License-Identifier: Apache-2.0
"""Measures a decode step at position 128 of a cache with room for 8,192 tokens, for each way in which programs keep
keys and values (``kv_patterns``), and for our side also with room for 256. Reports the time, and the bytes that are
copied but need not be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from benchmarks import sides
from benchmarks.harness import Request, Result, Side, measure
from benchmarks.kv_patterns import PATTERNS, POSITION, Pattern
from benchmarks.model_case import cast_floating, flatten_outputs, relative_error, run64

NAME = "kv_cache"
LONG, SHORT = 8192, 256
SIDES = ("eager", "inductor", sides.OURS)
OURS_SHORT = f"{sides.OURS} {SHORT}"
COPIED = "bytes copied beyond the ideal"
CLONED = ", cloned by Inductor"  # ends the names of cases in which Inductor clones the cache
FIRST_STEPS = 3  # from the second step on, a position given as a number is a symbol
MOST_STEPS = 32  # in one sample


def run(request: Request) -> Iterator[Result]:
    for pattern in PATTERNS:
        case = pattern.name + CLONED * pattern.cloned
        if request.wants(NAME, case):
            yield compare(pattern, case, [side for side in request.sides if side in SIDES], request.samples)


def compare(pattern: Pattern, case: str, side_names: Sequence[str], samples: int) -> Result:
    torch._dynamo.reset()
    model = build(pattern)
    reference = run64(build(pattern).double(), cast_floating(pattern.inputs(LONG), torch.float64))[0]
    compared = [cache_side(pattern, model, name, name, LONG, reference) for name in side_names]
    figures = {}
    if sides.OURS in side_names:
        figures[COPIED] = copied_beyond_ideal(pattern)
        if not pattern.dynamic:  # a cache that grows has no fixed room
            compared.append(cache_side(pattern, model, sides.OURS, OURS_SHORT, SHORT, reference))
    result = measure(NAME, case, compared, samples, most_calls=MOST_STEPS)
    result.figures = figures
    return result


def build(pattern: Pattern) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return pattern.model().eval().requires_grad_(False)


def cache_side(
    pattern: Pattern, model: torch.nn.Module, side: str, name: str, length: int, reference: torch.Tensor
) -> Side:
    inputs = pattern.inputs(length)
    prepared = sides.prepare(side, model, dynamic=pattern.dynamic)

    def call() -> torch.Tensor:
        return prepared(**inputs)

    error = relative_error(flatten_outputs(call())[0], reference)
    as_number = isinstance(inputs.get("position"), int)
    for _ in range(FIRST_STEPS - 1):
        if as_number:
            inputs["position"] += 1
        call()
    return Side(name, call, lambda: pattern.rewind(inputs) if pattern.rewind else None, error)


def copied_beyond_ideal(pattern: Pattern) -> int:
    """Returns the bytes that our side copied beyond the ideal in its last step so far."""
    import npugraph

    copied = max(artifact.memory["copied_bytes_per_replay"] for artifact in npugraph.artifacts())
    return copied - pattern.forced(POSITION + FIRST_STEPS - 1)
