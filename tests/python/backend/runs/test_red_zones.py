# SPDX-License-Identifier: Apache-2.0
"""``NPUGRAPH_RED_ZONES=1`` finds the operator that writes beyond its memory, in a graph that torch.compile made."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys
import torch

BYTES_BEYOND = int(sys.argv[1])

@torch.library.custom_op("zones::fill", mutates_args=("x",))
def fill(x: torch.Tensor) -> None:
    x.fill_(1)
    ctypes.memset(x.data_ptr() + x.nbytes, 0, BYTES_BEYOND)

@fill.register_fake
def _(x): pass

def model(x):
    y = x * 2
    fill(y)
    return (y @ y).relu()

print(torch.compile(model, backend="npugraph_ex")(torch.ones(16, 16)).sum().item())
"""


@pytest.mark.parametrize("beyond", [0, 4])
def test_operators_that_write_beyond_their_memory(beyond: int) -> None:
    environment = os.environ | {"NPUGRAPH_RED_ZONES": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(beyond)], env=environment, capture_output=True, text=True, check=False
    )
    if beyond == 0:
        assert run.returncode == 0 and float(run.stdout) == 16.0**3, run.stderr
    else:
        assert re.search(r"task \d+ \(zones\.fill\) has changed 4 bytes behind buffer \d+", run.stderr), run.stderr
        assert "the operator writes beyond the memory that it was given" in run.stderr
        assert "bug in npugraph" not in run.stderr
