# SPDX-License-Identifier: Apache-2.0
"""Generated code stays on disk for later processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.python.forks import OWN_HASHES, run_python

PROGRAM = """
import json, sys, torch
from torch.nn import functional as F
from torch._dynamo.utils import counters

torch.manual_seed(0)
w, x = torch.randn(48, 48), torch.randn(17, 48)
heads = torch.randn(1, 2, 17, 16)
image, filters = torch.randn(1, 3, 9, 9), torch.randn(5, 3, 3, 3)

def step(x):
    picked = torch.arange(17).flip(0)[x.argmax(1).clamp(max=16)]
    y = F.gelu(F.linear(x, w)).softmax(-1)[picked]
    return y, F.scaled_dot_product_attention(heads, heads, heads), F.conv2d(image, filters).relu()

compiled = torch.compile(step, backend="npugraph_ex")
with torch.no_grad():
    results = [[value.tolist() for value in compiled(x)] for _ in range(2)]
(artifact,) = __import__("npugraph").artifacts()
print(json.dumps({"results": results, "process": dict(counters["npugraph_ex"]), "artifact": artifact.counters}))
"""


def run(folder: str | Path, **variables: str) -> dict[str, Any]:
    environment = os.environ | {"NPUGRAPH_CACHE": str(folder)} | variables
    done = run_python("-c", PROGRAM, env=environment, check=True)
    return json.loads(done.stdout)


def test_the_second_process_loads_what_the_first_one_made(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    first, second = run(folder), run(folder, **OWN_HASHES)
    files = len(list(folder.iterdir()))
    assert folder.stat().st_mode & 0o777 == 0o700
    # Two threads may build the same code at the same time, so there may be more builds than files.
    assert first["process"]["kernel_builds"] >= files > 4
    assert "kernel_loads" not in first["process"]
    assert "kernel_builds" not in second["process"]
    assert second["process"]["kernel_loads"] >= files
    assert second["artifact"]["kernel_builds"] == 0
    assert second["artifact"]["kernel_loads"] > 0
    assert len(list(folder.iterdir())) == files
    assert second["results"] == first["results"]


def test_damaged_files_are_made_again(tmp_path: Path) -> None:
    first = run(tmp_path)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    second = run(tmp_path)
    assert second["process"]["kernel_builds"] > 4
    assert "kernel_loads" not in second["process"]
    assert second["results"] == first["results"]
    assert "kernel_builds" not in run(tmp_path)["process"]


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for value in ("0", ""):
        assert run(value)["process"]["kernel_builds"] > 4
    assert not (tmp_path / ".cache/npugraph").exists()
