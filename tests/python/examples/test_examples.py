# SPDX-License-Identifier: Apache-2.0
"""Every example runs in a process of its own and says what it promises; the demo as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SAYS = {
    "01_first_graph.py": "captured 1 time",
    "02_dynamic_sizes.py": "compiles: 1, captures: 3",
    "03_live_parameters.py": "compiles: 1",
    "04_look_inside.py": "the planned program",
    "05_training_step.py": "as in eager",
    "06_kv_cache_decode.py": "copied bytes per replay: 0",
    "07_sentence_search.py": "Maren, lights the lamp",
    "08_trace.py": "most time in:",
}
MOST_LINES = 80


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_every_example_is_listed() -> None:
    files = {path.name for path in (ROOT / "examples").glob("[0-9]*.py")}
    assert files == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str) -> None:
    path = ROOT / "examples" / name
    assert len(path.read_text().splitlines()) < MOST_LINES
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout


def test_demo_answers_with_eager_tokens() -> None:
    done = run("-m", "npugraph.demo", "What is the capital of France?", "--tokens", "12")
    assert done.returncode == 0, done.stderr
    assert "The capital of France is Paris." in done.stdout
    assert "same tokens as eager" in done.stdout


def test_demo_names_missing_packages() -> None:
    """Exit code 2 and the way out, instead of a traceback."""
    hide = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'gguf' else f(n, *a)"
    done = run("-c", f"{hide}\nfrom npugraph.demo.__main__ import main\nraise SystemExit(main([]))")
    assert done.returncode == 2
    assert "missing Python package: gguf" in done.stderr
    assert "pip install gguf" in done.stderr
