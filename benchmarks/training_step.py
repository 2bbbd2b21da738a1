# SPDX-License-Identifier: Apache-2.0
"""Measures a training step of base-size models: forward, backward and AdamW, batch 4, texts of 128 tokens, in fp32 and
with autocast to bf16. The compiled sides compile the loss of the model and the optimizer's step.

Every sample is a fresh process; the sides take turns. The error is that of the gradients of the first step against
float64. ``peak`` is the peak of resident memory in steady state over the resident memory once the model was there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks import processes, sides
from benchmarks.harness import Request, Result
from benchmarks.samples.training_step import AUTOCAST, gradients64

NAME = "training_step"
MODELS = ("gpt2", "bert", "resnet", "vit")
QUICK = ("bert",)
DTYPES = {"float32": 4.0, AUTOCAST: 2.0}  # with the factor of eager's error that is allowed
SIDES = ("eager", "inductor", sides.OURS)
ROUNDS, QUICK_ROUNDS = 3, 1
SECONDS = 4  # of timed steps in a process
PEAK = "peak over Inductor's"
MB = 1e6


def run(request: Request) -> Iterator[Result]:
    side_names = [side for side in request.sides if side in SIDES]
    rounds = QUICK_ROUNDS if request.quick else ROUNDS
    for model in QUICK if request.wants_few else MODELS:
        dtypes = [dtype for dtype in DTYPES if request.wants(NAME, f"{model} {dtype}")]
        if not dtypes:
            continue
        with tempfile.TemporaryDirectory() as folder:
            reference = Path(folder) / "gradients.pt"
            torch.save(gradients64(model), reference)
            for dtype in dtypes:
                yield compare(model, dtype, side_names, rounds, reference)


def compare(model: str, dtype: str, side_names: Sequence[str], rounds: int, reference: Path) -> Result:
    peaks: dict[str, float] = {}

    def take(side: str) -> processes.Sample:
        sample = processes.run_module("benchmarks.samples.training_step", (side, model, dtype, reference, SECONDS))
        peaks[side] = sample["peak"]
        return sample

    result = processes.compare(NAME, f"{model} {dtype}", side_names, rounds, take)
    result.error_factor = DTYPES[dtype]
    result.notes["peak, MB"] = ", ".join(f"{side} {peak / MB:.4g}" for side, peak in peaks.items())
    if sides.OURS in peaks and "inductor" in peaks:
        result.figures[PEAK] = peaks[sides.OURS] / peaks["inductor"]
    return result
