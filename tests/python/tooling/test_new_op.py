# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph new-op``: each project that it makes builds, and passes its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npugraph.__main__ import main

long = pytest.mark.long


def run(*command: str | Path, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # for cmake
    environment = os.environ | {"PATH": path, "PYTHON": sys.executable}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "language"),
    [
        ("functional", "cpp"),
        pytest.param("inplace", "cpp", marks=long),
        pytest.param("functional", "python", marks=long),
        pytest.param("inplace", "python", marks=long),
    ],
)
def test_the_project_builds_and_passes_its_tests(kind: str, language: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    assert main(["new-op", "my_ops::my_add", f"--{kind}", "--lang", language, "--out", str(folder)]) == 0
    files = {"README.md", "my_add.py", "test_my_add.py"}
    files |= {"my_add.cc", "CMakeLists.txt", "build.sh"} if language == "cpp" else set()
    assert {path.name for path in folder.iterdir()} == files
    assert not [path.name for path in folder.iterdir() if "my_add" not in path.read_text()]
    if language == "cpp":
        run("bash", "build.sh", folder=folder)
    assert "12 passed" in run(sys.executable, "-m", "pytest", "-q", folder=folder)


@pytest.mark.parametrize("name", ["my_add", "my_ops::my::add", "my_ops::class", "1st::add", "my_ops::2nd", "aten::add"])
def test_a_name_that_is_not_allowed_makes_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["new-op", name, "--out", str(tmp_path / "project")]) == 2
    assert not (tmp_path / "project").exists()
    assert "namespace" in capsys.readouterr().err.lower()


def test_files_that_are_there_stay(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["new-op", "my_ops::my_add", "--out", str(tmp_path)]) == 2
    assert "exists and is not an empty directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
