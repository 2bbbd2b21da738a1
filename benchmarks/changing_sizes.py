# SPDX-License-Identifier: Apache-2.0
"""Serves 64 requests of 40 lengths in 17-512 and batches of 1-4, in a fixed random order, with ``dynamic=True`` in a
fresh process. Measures the time of all requests with their compiles, and compares single sizes in steady state with
compiles of their own.

The case ``requests`` covers all requests. The other cases are single sizes in steady state: ``dynamic`` is the process
that has seen all requests, and ``static`` is a process that compiled each size for itself with ``dynamic=False``.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import processes, sides
from benchmarks.harness import Request, Result, SideResult
from benchmarks.model_case import Inputs, cast_floating, run64
from benchmarks.models import CASES

NAME = "changing_sizes"
REQUESTS, LENGTHS, SHORTEST, LONGEST, MOST_ROWS = 64, 40, 17, 512, 4
SAMPLED = 6  # sizes that are also compiled for themselves
PADDING_STEP = 3  # row i is padded by 3 i tokens
SIDES = ("eager", "inductor", sides.OURS)
STATIC, DYNAMIC = "static", "dynamic"
INSTANCE = "us to make an Instance"
COMPILES, MORE_COMPILES = "compiles", "more compiles with dynamic=None"
MOST_ROUNDS = 3
Taken = dict[str, list[processes.Sample]]


@dataclass(frozen=True)
class Service:
    """A model and the arguments that all requests share."""

    name: str
    model: str  # a key of CASES
    arguments: dict[str, Any]


SERVICES = (Service("bert", "bert", {}), Service("smollm2 prefill", "llama", {"logits_to_keep": 1}))


def sizes() -> list[tuple[int, int]]:
    """Returns the batch and the length of each request. Every length occurs."""
    source = random.Random(5)
    lengths = [SHORTEST, LONGEST, *source.sample(range(SHORTEST + 1, LONGEST), LENGTHS - 2)]
    lengths += source.choices(lengths, k=REQUESTS - LENGTHS)
    source.shuffle(lengths)
    return [(source.randint(1, MOST_ROWS), length) for length in lengths]


def sampled(all_sizes: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the indices of SAMPLED requests, evenly spaced from the fewest to the most tokens."""
    order = sorted(range(len(all_sizes)), key=lambda i: all_sizes[i][0] * all_sizes[i][1])
    return [order[round(i * (len(order) - 1) / (SAMPLED - 1))] for i in range(SAMPLED)]


def run(request: Request) -> Iterator[Result]:
    size = "tiny" if request.quick else "base"
    side_names = [side for side in request.sides if side in SIDES]
    rounds = 1 if request.quick else min(request.samples, MOST_ROUNDS)
    for service in SERVICES:
        prefix = f"{service.name} {size}"
        cases = [f"{prefix} {rows} x {length}" for rows, length in (sizes()[i] for i in sampled(sizes()))]
        if any(request.wants(NAME, case) for case in (f"{prefix} requests", *cases)):
            with tempfile.TemporaryDirectory() as folder:
                compared = compare(service, size, cases, side_names, rounds, Path(folder))
                yield from (result for result in compared if request.wants(NAME, result.case))


def compare(
    service: Service, size: str, cases: Sequence[str], side_names: Sequence[str], rounds: int, folder: Path
) -> Iterator[Result]:
    write_requests(service, size, folder)

    def take(side: str, dynamic: str = "True") -> processes.Sample:
        chosen = (sides.OURS, "False") if side == STATIC else (side, dynamic)
        return processes.run_module("benchmarks.samples.changing_sizes", (*chosen, service.model, size, folder))

    ours = [STATIC] if sides.OURS in side_names else []
    taken, notes = processes.take_turns([*side_names, *ours], rounds, take)
    static = taken.pop(STATIC, [])
    compared = [SideResult(side, [s["seconds"] for s in samples], error_of(samples)) for side, samples in taken.items()]
    result = Result(NAME, f"{service.name} {size} requests", compared, notes=notes)
    result.notes["graphs"] = ", ".join(f"{side} {samples[-1][COMPILES]}" for side, samples in taken.items())
    if taken.get(sides.OURS):
        by_default = take(sides.OURS, "None")
        result.notes["dynamic=None"] = f"{by_default[COMPILES]} compiles, {by_default['seconds']:.3g} s"
        compiles = max(s[COMPILES] for s in taken[sides.OURS])
        result.figures = {COMPILES: compiles, MORE_COMPILES: by_default[COMPILES] - compiles}
        result.figures[INSTANCE] = statistics.median(map(instance_us, taken[sides.OURS]))
    yield result
    if static and taken.get(sides.OURS):
        yield from steady(cases, {STATIC: static, DYNAMIC: taken[sides.OURS]})


def steady(cases: Sequence[str], taken: Taken) -> Iterator[Result]:
    for i, case in enumerate(cases):
        compared = [
            SideResult(side, [s["steady"][i] for s in samples], error_of(samples)) for side, samples in taken.items()
        ]
        yield Result(NAME, case, compared, baseline=STATIC)


def instance_us(sample: processes.Sample) -> float:
    return 1e-3 * sample["captured"]["capture_ns"] / sample["captured"]["captures"]


def error_of(samples: Sequence[processes.Sample]) -> float:
    return max(sample["error"] for sample in samples)


def write_requests(service: Service, size: str, folder: Path) -> None:
    """Writes ``requests.pt``: the inputs of each request, its main output in float64, and the indices of the sampled
    requests."""
    case = CASES[service.model]
    model = case.build(size)
    requests = [request_inputs(model.config, rows, length) | service.arguments for rows, length in sizes()]
    wide = model.double()
    references = [run64(wide, cast_floating(inputs, torch.float64))[0] for inputs in requests]
    torch.save((requests, references, sampled(sizes())), folder / "requests.pt")


def request_inputs(config: Any, rows: int, length: int) -> Inputs:
    generator = torch.Generator().manual_seed(1000 * rows + length)
    ids = torch.randint(5, config.vocab_size, (rows, length), generator=generator)
    mask = torch.arange(length) < (length - PADDING_STEP * torch.arange(rows))[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}
