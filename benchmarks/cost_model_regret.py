# SPDX-License-Identifier: Apache-2.0
"""Measures how much longer the kernels that the cost model chooses take than the best of the candidates.

Candidates are the shapes of loops, copies of their bodies, one loop or two, and the ways to cut matrix products. The
compiler chooses among the same candidates. The benchmark runs without torch.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Request, Result, SideResult

NAME = "cost_model_regret"
PROGRAM = Path(__file__).resolve().parents[1] / "build/release/bin/cost_model_regret"
SHOWN = 1.05


def run(request: Request) -> Iterator[Result]:
    command = [PROGRAM, str(request.samples)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for line in program.stdout:
            measured = json.loads(line)
            if request.wants(NAME, measured["case"]):
                yield compared(measured)
    if program.returncode:
        raise subprocess.CalledProcessError(program.returncode, command)


def compared(measured: dict) -> Result:
    sides = [
        SideResult(name, [microseconds * 1e-6 for microseconds in measured[f"{name}_us"]], 0.0)
        for name in ("best", "chosen")
    ]
    result = Result(NAME, measured["case"], sides, baseline="best")
    if sides[1].median > SHOWN * sides[0].median:
        result.notes = {name: measured[name] for name in ("best", "chosen")}
    return result
