# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that later processes use, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x)).softmax(-1) * 2.0
"""

SCRIPT = """
import json, sys, torch, npugraph_ex
from torch._dynamo.utils import counters
from model import Model

def run():
    model = Model()
    function = npugraph_ex.inference.cache_compile(model.forward)
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y = function(x)
        close = torch.allclose(y, model(x), atol=1e-6)
    return {"close": close, "sum": round(y.sum().item(), 3), "path": str(function.path), **counters["npugraph_ex"]}
"""

ALONE = SCRIPT + "\nprint(json.dumps(run()))\n"

TOGETHER = (
    SCRIPT
    + """
import multiprocessing

def child(barrier, queue):
    barrier.wait()
    queue.put(run())

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    torch.set_num_threads(1)
    barrier, queue = fork.Barrier(8), fork.Queue()
    children = [fork.Process(target=child, args=(barrier, queue)) for _ in range(8)]
    for process in children:
        process.start()
    print(json.dumps([queue.get() for _ in children]))
    for process in children:
        process.join()
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "alone.py").write_text(ALONE)
    (tmp_path / "together.py").write_text(TOGETHER)
    return tmp_path


def run(folder: Path, script: str = "alone.py") -> Any:
    environment = os.environ | {"TORCHAIR_CACHE_HOME": str(folder / "cache"), "NPUGRAPH_CACHE": str(folder / "code")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [sys.executable, folder / script], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def graphs(result: dict[str, Any]) -> tuple[int, int]:
    return result.get("compiles", 0), result.get("inference_cache_hits", 0)


@pytest.mark.feature("5.01", "5.04", "12b.10", "12e.9")
def test_a_second_process_compiles_nothing_until_the_source_changes(folder) -> None:
    first, second = run(folder), run(folder)
    assert graphs(first) == (1, 0)
    assert graphs(second) == (0, 1)
    assert first["kernel_builds"] > 0
    assert second.get("kernel_builds", 0) == 0
    assert first["close"]
    assert second["close"]
    assert first["path"] == second["path"]
    (folder / "model.py").write_text(MODEL.replace("* 2.0", "* 3.0"))
    edited = run(folder)
    assert graphs(edited) == (1, 0)
    assert edited["close"]
    assert edited["sum"] == pytest.approx(first["sum"] * 1.5, abs=0.01)
    assert graphs(run(folder)) == (0, 1)


@pytest.mark.feature("5.05", "12e.9")
def test_eight_processes_start_at_once(folder) -> None:
    results = run(folder, "together.py")
    assert len(results) == 8
    assert all(result["close"] for result in results)
    # One compiles, and the others wait for what it writes.
    assert sorted(map(graphs, results)) == [(0, 1)] * 7 + [(1, 0)]
    assert sorted(file.name for file in Path(results[0]["path"]).parent.iterdir()) == [
        "compiled_module",
        "compiled_module.lock",
    ]
