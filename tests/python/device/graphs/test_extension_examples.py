# SPDX-License-Identifier: Apache-2.0
"""The examples of extensions for torch build in one command, and check themselves in all modes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.python.forks import run_python

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples/extensions"
FOLDER = ROOT / "build/extensions"  # kept, because a build takes most of a minute


def run(*command: str) -> str:
    # The commands of ccache leave out what differs between folders.
    environment = os.environ | {"CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(ROOT)}
    done = run_python(*command, cwd=FOLDER, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    shutil.copytree(EXAMPLES, FOLDER, dirs_exist_ok=True)
    run("setup.py", "build_ext", "--inplace")


@pytest.mark.feature("7.01", "7.03")
def test_operators_of_torch_library() -> None:
    assert run("torch_library/example.py").splitlines()[:4] == [
        "eager: equal",
        "NPUGraph: equal",
        "make_graphed_callables: equal",
        "npugraph_ex: equal",
    ]


@pytest.mark.feature("7.03")
def test_functions_of_pybind() -> None:
    assert run("pybind/example.py").splitlines()[:6] == [
        "eager: equal",
        "NPUGraph: equal",
        "make_graphed_callables: equal",
        "graph breaks of the plain functions: 1",
        "npugraph_ex, plain functions: equal",
        "npugraph_ex, wrapped functions: equal",
    ]
