# SPDX-License-Identifier: Apache-2.0
"""``NPUGRAPH_RED_ZONES=1`` finds the operator that writes beyond its memory, in a graph that torch.compile made."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.python.forks import run_python

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
    run = run_python("-c", PROGRAM, str(beyond), env=environment)
    if beyond == 0:
        assert run.returncode == 0 and float(run.stdout) == 16.0**3, run.stderr
    else:
        assert re.search(r"task \d+ \(zones\.fill\) has changed 4 bytes behind buffer \d+", run.stderr), run.stderr
        assert "the operator writes beyond the memory that it was given" in run.stderr
        assert "bug in npugraph" not in run.stderr


WRONG = """
import sys
import torch
from tests.python import sample_kernels

library = torch.library.Library("zones", "DEF")
library.define("writes_its_input(Tensor x) -> Tensor")
library.impl("writes_its_input", lambda x: x.add_(1) * 1, "CPU")
library.impl("writes_its_input", torch.empty_like, "Meta")
namespace, name, source = sys.argv[1:]
operator = getattr(getattr(torch.ops, namespace), name)
fast = torch.compile(lambda x: operator(x * 2 if source == "mul" else x) + 1, backend="npugraph_ex")
with torch.no_grad():
    for _ in range(2):
        try:
            fast(torch.ones(3))
        except RuntimeError as error:
            print(error)
    other = torch.compile(lambda x: torch.ops.test_ops.scaled_add(x, x, 2.0), backend="npugraph_ex")
    print(other(torch.ones(3)).tolist())
"""


def run_wrong(folder: Path, *arguments: str) -> list[str]:
    """Two messages, and the result of another graph."""
    script = folder / "wrong.py"
    script.write_text(WRONG)
    environment = os.environ | {"NPUGRAPH_RED_ZONES": "1", "PYTHONPATH": os.getcwd()}
    done = run_python(script, *arguments, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.each_value
@pytest.mark.parametrize("source", ["mul", "l_x_"])
@pytest.mark.parametrize("namespace", ["zones", "test_ops"])
def test_operators_that_write_what_they_say_they_read(namespace: str, source: str, tmp_path: Path) -> None:
    *messages, result = run_wrong(tmp_path, namespace, "writes_its_input", source)
    task = r"task \d \(" + namespace + r"\.writes_its_input at .*wrong.py:\d+ in <lambda>\)"
    for message in messages:
        assert re.match(task + rf" has changed its tensor 0 \({source}\), which by its schema it only reads", message)
    assert (len(messages), result) == (2, "[3.0, 3.0, 3.0]")


def test_kernels_of_users_that_write_beyond_their_memory(tmp_path: Path) -> None:
    *messages, result = run_wrong(tmp_path, "test_ops", "writes_beyond", "mul")
    for message in messages:
        assert re.search(r"\(test_ops.writes_beyond at .*\) has changed 4 bytes behind buffer \d \(\w+\)", message)
        assert "the operator writes beyond the memory that it was given" in message
    assert (len(messages), result) == (2, "[3.0, 3.0, 3.0]")
