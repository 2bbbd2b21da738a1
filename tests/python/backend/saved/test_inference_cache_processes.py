# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that later processes use, tested in several processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.python.backend.forked import AT_ONCE
from tests.python.forks import run_python

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

RUN = """
import json, sys, torch

def run():
    import npugraph_ex
    from npugraph import _C
    from model import Model

    model = Model()
    function = npugraph_ex.inference.cache_compile(model.forward)
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y = function(x)
        close = torch.allclose(y, model(x), atol=1e-6)
    return {"close": close, "sum": round(y.sum().item(), 3), "path": str(function.path), **_C.process_counters()}
"""

# Runs in a fresh process, and tells what it has imported.
ALONE = (
    RUN
    + """
result = run()
result["imported"] = sorted({"torch._dynamo", "torch._inductor", "sympy"} & set(sys.modules))
from torch._dynamo.utils import counters
result["counters"] = dict(counters["npugraph_ex"])
print(json.dumps(result))
"""
)

# Forks processes from one that has imported torch: eight at the same time, then one after an edit of the model, and
# another one.
FORKED = (
    RUN
    + AT_ONCE
    + """
from pathlib import Path

if __name__ == "__main__":
    results = at_once(8)
    files = sorted(file.name for file in Path(results[0]["path"]).parent.iterdir())
    model = Path("model.py")
    model.write_text(model.read_text().replace("* 2.0", "* 3.0"))
    print(json.dumps([files, results, *at_once(1), *at_once(1)]))
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def process(folder: Path, script: str) -> Any:
    environment = os.environ | {"TORCHAIR_CACHE_HOME": str(folder / "cache"), "NPUGRAPH_CACHE": str(folder / "code")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    done = run_python("-c", script, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def graphs(result: dict[str, Any]) -> tuple[int, int]:
    return result.get("compiles", 0), result.get("inference_cache_hits", 0)


@pytest.mark.feature("5.01", "5.04", "5.05", "12b.10", "12e.9")
def test_processes_compile_nothing_twice_until_the_source_changes(folder) -> None:
    files, at_once, edited, after_edit = process(folder, FORKED)
    # One process compiles, and the others wait for the file that it writes.
    first = max(at_once, key=graphs)
    assert sorted(map(graphs, at_once)) == [(0, 1)] * 7 + [(1, 0)]
    assert first["kernel_builds"] > 0
    assert files == ["compiled_module", "compiled_module.lock"]
    assert graphs(edited) == (1, 0)
    assert edited["sum"] == pytest.approx(first["sum"] * 1.5, abs=0.01)
    assert graphs(after_edit) == (0, 1)
    assert after_edit["sum"] == edited["sum"]
    assert "kernel_builds" not in after_edit
    alone = process(folder, ALONE)
    assert graphs(alone) == graphs(alone["counters"]) == (0, 1)
    assert alone["sum"] == edited["sum"]
    assert alone["imported"] == []
    results = [*at_once, edited, after_edit, alone]
    assert all(result["close"] for result in results)
    assert len({result["path"] for result in results}) == 1
