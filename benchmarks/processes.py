# SPDX-License-Identifier: Apache-2.0
"""Takes samples in processes of their own, so that no side changes how another computes, and none starts warm."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Result, SideResult

ROOT = Path(__file__).resolve().parents[1]
Sample = dict[str, Any]
Times = Mapping[str, Any]
Contenders = Callable[[Times], Collection[str]]
CACHE_VARIABLES = ("TORCHINDUCTOR_", "TRITON_", "XDG_", "NPUGRAPH_CACHE", "VLLM_CACHE_ROOT")


def compare(
    benchmark: str,
    case: str,
    side_names: Sequence[str],
    rounds: int,
    take: Callable[[str], Sample],
    contenders: Contenders = lambda times: times,
) -> Result:
    """Takes ``rounds`` samples of each side in turn. ``take(side)`` returns ``seconds`` (of a call), ``error`` and, for
    our side, maybe ``generated``. A side whose sample fails is left out, with the last line of its error as a note.
    ``contenders`` gets the seconds of the first round and returns the sides that go on."""
    taken, notes = take_turns(side_names, rounds, take, contenders)
    compared = [
        SideResult(side, [s["seconds"] for s in samples], max(s["error"] for s in samples))
        for side, samples in taken.items()
    ]
    generated = [s["generated"] for samples in taken.values() for s in samples if s.get("generated") is not None]
    return Result(benchmark, case, compared, notes=notes, generated=statistics.median(generated) if generated else None)


def take_turns(
    side_names: Sequence[str],
    rounds: int,
    take: Callable[[str], Sample],
    contenders: Contenders = lambda times: times,
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    """Returns the samples of each side that runs, and for the other sides a note why they do not. Each round begins
    with the next side, so that no side always follows the same other one."""
    taken: dict[str, list[Sample]] = {side: [] for side in side_names}
    notes: dict[str, str] = {}
    names = list(side_names)
    for turn in range(rounds):
        if not names:
            break
        shift = turn % len(names)
        for side in [*names[shift:], *names[:shift]]:
            if side in notes:
                continue
            try:
                taken[side].append(take(side))
            except RuntimeError as error:
                del taken[side]
                notes[side] = f"does not run: {str(error).splitlines()[-1][:200]}"
        if turn == 0:
            going_on = contenders({side: samples[0]["seconds"] for side, samples in taken.items()})
            names = [side for side in taken if side in going_on]
    return taken, notes


def run_module(
    module: str,
    arguments: Sequence[object],
    python: str = sys.executable,
    environment: Mapping[str, str] = os.environ,
    under: Sequence[str] = (),
) -> Sample:
    """Returns the JSON in the last line that ``python -m module arguments`` prints. ``under`` is a command that runs
    that command. Raises RuntimeError with the error output if it fails."""
    paths = [str(ROOT), str(ROOT / "python"), environment.get("PYTHONPATH", "")]
    changed = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TOKENIZERS_PARALLELISM": "false"}
    command = [*under, python, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, env={**environment, **changed}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-4000:] or f"exit {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def environment_at(home: Path) -> dict[str, str]:
    """The variables of a process whose caches all lie in the folder ``home``."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(CACHE_VARIABLES)}
    return known | {"HOME": str(home), "TMPDIR": str(home)}
