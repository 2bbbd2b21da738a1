# SPDX-License-Identifier: Apache-2.0
"""Measures a decode step of SmolLM2-135M-Instruct (real weights, static cache): after 128 and after 1,500 tokens in
fp32, bf16, f16 and from blocks of GGUF files, and for 4 to 32 sequences at a time.

Every sample is a fresh process; the sides take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import machine, peers, processes
from benchmarks.harness import Request, Result
from benchmarks.smollm2_models import BLOCKS, DTYPES, Files, describe, sides_for

NAME = "smollm2_decode"
CONTEXT = 128
BATCHES = (2, 4, 8, 16, 32)
# Case: tokens before the step, sequences, form of the weights.
Case = tuple[int, int, str]
QUICK_CASES: list[Case] = [(CONTEXT, 1, form) for form in (*DTYPES, "q4_1")]
CASES: list[Case] = [
    *((CONTEXT, 1, form) for form in (*DTYPES, *BLOCKS)),
    *((1500, 1, form) for form in (*DTYPES, "q4_1")),
    *((CONTEXT, batch, dtype) for batch in BATCHES for dtype in ("float32", "bfloat16")),
]
ROUNDS, QUICK_ROUNDS = 3, 1
STEPS = 64


def run(request: Request) -> Iterator[Result]:
    cases = {name_of(case): case for case in (QUICK_CASES if request.wants_few else CASES)}
    wanted = {name: case for name, case in cases.items() if request.wants(NAME, name)}
    if not wanted:
        return
    limits = machine.Limits(["read"])
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        for name, case in wanted.items():
            context, batch, form = case
            result = compare(files, name, case, request)
            read = files.bytes_of_weights(form) + batch * files.bytes_of_cache(form, context)
            limits.set_share(result, "MBU", "read", read)
            yield result


def name_of(case: Case) -> str:
    context, batch, form = case
    return f"{context} tokens {form}" + (f", batch {batch}" if batch > 1 else "")


def compare(files: Files, name: str, case: Case, request: Request) -> Result:
    context, batch, form = case
    folder, prompt = files.model(form), files.prompt(form, context)

    def take(side: str) -> processes.Sample:
        arguments = (side, folder, prompt, form, batch, STEPS)
        return processes.run_module("benchmarks.samples.smollm2_decode", arguments, peers.interpreter(side))

    rounds = QUICK_ROUNDS if request.quick else ROUNDS
    result = processes.compare(NAME, name, sides_for(request, form), rounds, take)
    describe(result, form, batch)
    return result
