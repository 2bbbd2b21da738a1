# SPDX-License-Identifier: Apache-2.0
"""Samples that are processes of their own, so that no side changes how another computes, and none starts warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Result, SideResult

ROOT = Path(__file__).resolve().parents[1]
Sample = dict[str, Any]


Times = Mapping[str, float]


def compare(
    benchmark: str,
    case: str,
    side_names: Sequence[str],
    rounds: int,
    take: Callable[[str], Sample],
    contenders: Callable[[Times], Collection[str]] = lambda times: times,
) -> Result:
    """``rounds`` samples of each side in turn. ``take(side)`` gives ``seconds`` (a call) and ``error``; a side whose
    sample fails is left out, with its last words as a note. ``contenders`` is given the seconds of the first round, and
    gives the sides that go on."""
    taken, notes = take_turns(side_names, 1, take)
    going_on = contenders({side: samples[0]["seconds"] for side, samples in taken.items()})
    later, late_notes = take_turns([side for side in taken if side in going_on], rounds - 1, take, first=1)
    for side, samples in later.items():
        taken[side] += samples
    for side in late_notes:
        del taken[side]
    notes |= late_notes
    compared = [
        SideResult(side, [s["seconds"] for s in samples], max(s["error"] for s in samples))
        for side, samples in taken.items()
    ]
    return Result(benchmark, case, compared, notes=notes)


def take_turns(
    side_names: Sequence[str], rounds: int, take: Callable[[str], Sample], first: int = 0
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    """The samples of each side that runs, and for the others a note why they do not. Each round begins with the next
    side, round ``first`` with that side, so that none always follows the same other one."""
    taken: dict[str, list[Sample]] = {side: [] for side in side_names}
    notes: dict[str, str] = {}
    for turn in range(first, first + rounds):
        shift = turn % max(len(side_names), 1)
        for side in [*side_names[shift:], *side_names[:shift]]:
            if side in notes:
                continue
            try:
                taken[side].append(take(side))
            except RuntimeError as error:
                del taken[side]
                notes[side] = f"does not run: {str(error).splitlines()[-1][:200]}"
    return taken, notes


def run_module(
    module: str, arguments: Sequence[object], python: str = sys.executable, environment: Mapping[str, str] = os.environ
) -> Sample:
    """The JSON in the last line that ``python -m module arguments`` prints, else RuntimeError with what it said."""
    paths = [str(ROOT), str(ROOT / "python"), environment.get("PYTHONPATH", "")]
    changed = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TOKENIZERS_PARALLELISM": "false"}
    command = [python, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, env={**environment, **changed}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-4000:] or f"exit {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])
