# SPDX-License-Identifier: Apache-2.0
"""Serves a model for ``busy_machine``: python -m benchmarks.samples.busy_machine MODEL.

The process reads lines. ``prepare`` compiles the model and is answered once that is done. A number N measures N windows
of each side. The windows are those of the system's clock, so that processes which begin together are on the same side.
Answers are lines of JSON: ``seconds``, the mean time of a call in each window by side, and ``errors`` against float64.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import sides
from benchmarks.model_case import ModelCase, flatten_outputs, reference64, relative_error
from benchmarks.models import CASES
from benchmarks.special_models import CACHE_LENGTH, SPECIAL

WINDOW = 1.0  # seconds
SIDES = ("eager", sides.OURS)
WARM_UP_CALLS = 3
Call = Callable[[], Any]


@torch.no_grad()
def main(name: str) -> None:
    prepared: dict[str, Call] = {}
    errors: dict[str, float] = {}
    for line in sys.stdin:
        if not prepared:
            prepared, errors = prepare({**CASES, **SPECIAL}[name])
        if line.strip() == "prepare":
            print(json.dumps({}), flush=True)
        else:
            print(json.dumps({"seconds": windows(prepared, int(line)), "errors": errors}), flush=True)


def prepare(case: ModelCase) -> tuple[dict[str, Call], dict[str, float]]:
    """Returns a call for each side, which has run already, and the errors of the first results."""
    sides.import_all(sides.OURS)
    model, reference = case.build("base"), reference64(case, size="base")[0]
    calls, errors = {}, {}
    for side in SIDES:
        forward, inputs = sides.prepare(side, model), case.inputs(size="base")
        errors[side] = relative_error(flatten_outputs(forward(**inputs))[0], reference)
        calls[side] = repeated(forward, inputs)
        for _ in range(WARM_UP_CALLS):
            calls[side]()
    return calls, errors


def repeated(forward: Call, inputs: dict[str, Any]) -> Call:
    """Returns a function that calls ``forward`` any number of times. It resets a cache that is full."""
    cache, room = inputs.get("cache"), CACHE_LENGTH - 1

    def call() -> None:
        nonlocal room
        if cache is not None and room == 0:
            cache.reset()
            room = CACHE_LENGTH
        room -= 1
        forward(**inputs)

    return call


def windows(calls: dict[str, Call], count: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    time.sleep(WINDOW - time.monotonic() % WINDOW)
    while any(len(taken) < count for taken in seconds.values()):
        window = int(time.monotonic() / WINDOW)
        side = SIDES[window % len(SIDES)]
        mean = mean_until((window + 1) * WINDOW, calls[side])
        if len(seconds[side]) < count:
            seconds[side].append(mean)
    return seconds


def mean_until(end: float, call: Call) -> float:
    """Returns the mean seconds per call until the clock shows ``end``. The first call is not timed: it brings back into
    the processor's caches what the other side displaced."""
    call()
    start, count = time.monotonic(), 0
    while True:
        call()
        count += 1
        now = time.monotonic()
        if now >= end:
            return (now - start) / count


if __name__ == "__main__":
    main(*sys.argv[1:])
