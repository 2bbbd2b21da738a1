# SPDX-License-Identifier: Apache-2.0
"""Measures how SmolLM2-135M-Instruct (real weights) reads a prompt of 512 tokens: fp32, bf16, f16 and blocks of GGUF
files. No side but llama.cpp writes a cache.

Every sample is a fresh process; the sides take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers, processes
from benchmarks.harness import Request, Result
from benchmarks.smollm2_models import FORMS, Files, describe, sides_for

NAME = "smollm2_prefill"
TOKENS = 512
QUICK_FORMS = ("float32", "q4_1")
ROUNDS, QUICK_ROUNDS = 3, 1
CALLS = 15


def run(request: Request) -> Iterator[Result]:
    known = QUICK_FORMS if request.wants_few else FORMS
    forms = [form for form in known if request.wants(NAME, f"{TOKENS} tokens {form}")]
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        for form in forms:
            yield compare(files, form, request)


def compare(files: Files, form: str, request: Request) -> Result:
    folder, prompt = files.model(form), files.prompt(form, TOKENS)

    def take(side: str) -> processes.Sample:
        arguments = (side, folder, prompt, form, CALLS)
        return processes.run_module("benchmarks.samples.smollm2_prefill", arguments, peers.interpreter(side))

    rounds = QUICK_ROUNDS if request.quick else ROUNDS
    result = processes.compare(NAME, f"{TOKENS} tokens {form}", sides_for(request, form), rounds, take)
    describe(result, form, TOKENS)
    return result
