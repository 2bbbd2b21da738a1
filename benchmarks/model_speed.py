# SPDX-License-Identifier: Apache-2.0
"""Steady-state latency of the base-size models, batch 1, against eager and, with ``--peers``, against the peers.

Every sample is a fresh process; the sides take turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import machine, peers
from benchmarks.harness import Result, SideResult
from benchmarks.model_case import reference64
from benchmarks.models import CASES

NAME = "model_speed"
TEXTS = ("bert", "distilbert", "gpt2", "roberta", "electra", "opt", "t5_encoder")
LONG_ONLY = ("qwen3",)
IMAGES = ("vit", "dinov2", "clip", "whisper_encoder", "convnextv2", "resnet")
QUICK = (("bert", "base"), ("vit", "base"))
DTYPES = ("float32", "bfloat16")
ROUNDS, QUICK_ROUNDS = 3, 1
SECONDS = 1.5  # of timed calls in a process


def run(side_names: Sequence[str], samples: int, quick: bool) -> Iterator[Result]:
    side_names = [side for side in side_names if side in peers.ALL]
    peaks = machine.peaks()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    for name, size in QUICK if quick else cases():
        with tempfile.TemporaryDirectory() as folder:
            reference = Path(folder) / "reference.pt"
            torch.save(reference64(CASES[name], size=size)[:1], reference)
            flops = count_flops(name, size)
            for dtype in DTYPES:
                yield compare(name, size, dtype, side_names, rounds, reference, flops / peaks[dtype])


def cases() -> Iterator[tuple[str, str]]:
    for name in TEXTS:
        yield name, "base"
        yield name, "long"
    yield from ((name, "long") for name in LONG_ONLY)
    yield from ((name, "base") for name in IMAGES)


def compare(
    name: str, size: str, dtype: str, side_names: Sequence[str], rounds: int, reference: Path, least: float
) -> Result:
    """``least`` is the time in seconds that the products of the model take at the machine's peak."""
    taken: dict[str, list[dict[str, Any]]] = {}
    notes: dict[str, str] = {}
    for _ in range(rounds):
        for side in side_names:
            if side in notes:
                continue
            try:
                taken.setdefault(side, []).append(sample(side, name, size, dtype, reference))
            except RuntimeError as error:
                taken.pop(side, None)
                notes[side] = f"does not run: {error}"
    compared = [
        SideResult(side, [s["seconds"] for s in samples], max(s["error"] for s in samples))
        for side, samples in taken.items()
    ]
    result = Result(NAME, f"{name} {size} {dtype}", compared, notes=notes)
    result.notes["MFU"] = ", ".join(f"{side.name} {least / side.median:.2f}" for side in compared)
    return result


def sample(side: str, name: str, size: str, dtype: str, reference: Path) -> dict[str, Any]:
    root = Path(__file__).resolve().parents[1]
    environment = os.environ | {"PYTHONPATH": str(root), "TOKENIZERS_PARALLELISM": "false"}
    arguments = [side, name, size, dtype, str(reference), str(SECONDS)]
    command = [peers.interpreter(side), "-m", "benchmarks.model_speed_sample", *arguments]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:200])
    return json.loads(done.stdout.splitlines()[-1])


@torch.no_grad()
def count_flops(name: str, size: str) -> int:
    """2MNK of the products, convolutions and attention of one call."""
    case = CASES[name]
    with FlopCounterMode(display=False) as counter:
        case.build(size)(**case.inputs(size=size))
    return counter.get_total_flops()
