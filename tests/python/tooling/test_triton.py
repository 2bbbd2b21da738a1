# SPDX-License-Identifier: Apache-2.0
"""Installs Triton in build/triton, and runs the tests of its kernels with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build/triton"
WANTED = ROOT / "requirements/triton.txt"
TESTS = sorted(ROOT.glob("tests/python/device/compiled/test_triton_*.py"))


@pytest.fixture(scope="module")
def triton() -> Path:
    """The folder of the installed package."""
    stamp = FOLDER / "installed.txt"
    if not stamp.exists() or stamp.read_text() != WANTED.read_text():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(FOLDER)]
        subprocess.run([*install, "-r", str(WANTED)], check=True)
        stamp.write_text(WANTED.read_text())
    return FOLDER


@pytest.mark.long
def test_kernels_of_triton(triton: Path) -> None:
    run = [str(ROOT / "scripts/npu_python"), "-m", "pytest", "-q", "-n", "0", *map(str, TESTS)]
    environment = os.environ | {"PYTHONPATH": str(triton), "TRITON_INTERPRET": "1"}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
