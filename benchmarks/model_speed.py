# SPDX-License-Identifier: Apache-2.0
"""Measures the steady-state latency of the base-size models, batch 1, against eager and, with ``--peers``, against the
peers.

Every sample is a fresh process; the sides take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import machine, peers, processes
from benchmarks.harness import Request, Result
from benchmarks.model_case import ERROR_FACTORS, reference64
from benchmarks.models import CASES

NAME = "model_speed"
TEXTS = ("bert", "distilbert", "gpt2", "roberta", "electra", "opt", "t5_encoder")
LONG_ONLY = ("qwen3",)
IMAGES = ("vit", "dinov2", "clip", "whisper_encoder", "convnextv2", "resnet")
QUICK = (("bert", "base"), ("vit", "base"))
DTYPES = ("float32", "bfloat16")
FLOAT16 = (("bert", "base"), ("gpt2", "base"), ("vit", "base"), ("resnet", "base"))  # cases that also run in float16
ROUNDS, QUICK_ROUNDS = 3, 1
SECONDS = 1.5  # of timed calls in a process
FAR_BEHIND = 1.5  # times the fastest side's time in the first round


def run(request: Request) -> Iterator[Result]:
    side_names = [side for side in request.sides if side in peers.MODELS]
    limits = machine.Limits(DTYPES)
    rounds = QUICK_ROUNDS if request.quick else ROUNDS
    for name, size in QUICK if request.wants_few else cases():
        known = (*DTYPES, "float16") if (name, size) in FLOAT16 else DTYPES
        dtypes = [dtype for dtype in known if request.wants(NAME, f"{name} {size} {dtype}")]
        if not dtypes:
            continue
        with tempfile.TemporaryDirectory() as folder:
            reference = Path(folder) / "reference.pt"
            torch.save(reference64(CASES[name], size=size)[:1], reference)
            flops = count_flops(name, size)
            for dtype in dtypes:
                result = compare(name, size, dtype, side_names, rounds, reference)
                if dtype in DTYPES:  # float16 may be faster or slower than float32, as the processor has it
                    limits.set_share(result, "MFU", dtype, flops)
                yield result


def cases() -> Iterator[tuple[str, str]]:
    for name in TEXTS:
        yield name, "base"
        yield name, "long"
    yield from ((name, "long") for name in LONG_ONLY)
    yield from ((name, "base") for name in IMAGES)


def compare(name: str, size: str, dtype: str, side_names: Sequence[str], rounds: int, reference: Path) -> Result:
    def take(side: str) -> processes.Sample:
        arguments = (side, name, size, dtype, reference, SECONDS)
        return processes.run_module("benchmarks.samples.model_speed", arguments, peers.interpreter(side))

    result = processes.compare(NAME, f"{name} {size} {dtype}", side_names, rounds, take, contenders)
    result.error_factor = ERROR_FACTORS[dtype]
    return result


def contenders(times: processes.Times) -> list[str]:
    """Returns the sides that are measured more than once: the fastest of Inductor's configurations, which is the only
    one that counts, and all other sides that are not far behind."""
    inductor = min((side for side in times if side in peers.INDUCTOR), key=times.__getitem__, default=None)
    near = FAR_BEHIND * min(times.values(), default=0.0)
    return [side for side in times if side == inductor or (side not in peers.INDUCTOR and times[side] <= near)]


@torch.no_grad()
def count_flops(name: str, size: str) -> int:
    """Returns 2MNK, summed over the products, convolutions and attention of one call."""
    case = CASES[name]
    with FlopCounterMode(display=False) as counter:
        case.build(size)(**case.inputs(size=size))
    return counter.get_total_flops()
