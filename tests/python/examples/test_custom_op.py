# SPDX-License-Identifier: Apache-2.0
"""The steps of docs/custom_operators.md, run in an environment with an installed npugraph, outside of this tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.python.examples.installed import ROOT, environment
from tests.python.forks import run_python

EXAMPLES = ROOT / "examples/custom_op"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the environment. Beside it, in ``project``, are the examples, built."""
    folder = tmp_path_factory.mktemp("installed")
    interpreter = environment(folder / "venv")
    shutil.copytree(EXAMPLES, folder / "project", ignore=shutil.ignore_patterns("build", "__pycache__"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # for cmake
    subprocess.run(["bash", "build.sh"], check=True, **place_and_variables(interpreter, PATH=path))
    return interpreter


def place_and_variables(python: Path, **variables: str) -> dict[str, Any]:
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {"cwd": python.parents[2] / "project", "env": kept | {"PYTHON": str(python)} | variables}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_example_checks_itself(script: str, python: Path) -> None:
    run_python(script, python=str(python), check=True, **place_and_variables(python))


def test_the_installed_package_is_the_one_that_runs(python: Path) -> None:
    program = "import npugraph; print(npugraph.__file__)"
    assert "venv" in run_python("-c", program, python=str(python), check=True, **place_and_variables(python)).stdout


def test_the_page_names_each_file() -> None:
    page = (ROOT / "docs/custom_operators.md").read_text()
    files = [path.name for path in EXAMPLES.iterdir() if path.is_file()]
    assert "CMakeLists.txt" in files
    assert [name for name in files if name not in page] == []
