# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph bench``: the rows of its table, and what the calls that it makes again do."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from npugraph import __main__ as commands
from npugraph import backend
from npugraph.bench.calls import Functions
from npugraph.bench.turns import EAGER, OURS, Effort, measure
from npugraph.report.verdict import KINDS
from tests.python.forks import run_python

SCRIPT = """
import torch

def scaled(x, y):
    return torch.softmax(x @ y, -1)

with torch.no_grad():
    fast = torch.compile(scaled, backend="npugraph", dynamic=True)
    for rows in (4, 4, 5):
        fast(torch.randn(rows, 8), torch.randn(8, 8))

def keep(cache, place, x):  # a call past the end of the cache raises an error
    cache.index_copy_(0, place, x)
    place += 1
    return cache.sum(-1)

with torch.inference_mode():
    fast = torch.compile(keep, backend="npugraph_ex")
    cache, place = torch.zeros(4, 8), torch.tensor([0])
    for _ in range(4):
        fast(cache, place, torch.ones(1, 8))

torch.manual_seed(0)
layer = torch.nn.Linear(8, 8)
torch.compile(layer, backend="npugraph")(torch.randn(4, 8)).sum().backward()
optimizer = torch.optim.SGD(layer.parameters(), 0.5)
torch.compile(optimizer.step, backend="npugraph")()
"""

BROKEN = """
import sys
import torch

def outside(x, i):
    return torch.ops.aten.index(x, [i])

fast = torch.compile(outside, backend="npugraph")
try:
    fast(torch.ones(3), torch.tensor([7]))
except IndexError:
    pass
torch.compile(torch.sin, backend="npugraph")(torch.ones(3))
print(sys.argv)
raise ValueError("the script's own")
"""

NO_COMPILER = """
import torch._inductor.config
torch._inductor.config.cpp.cxx = (None, "/nowhere")
"""

ENDLESS = """
import itertools
import torch

def double(x):
    return x * 2

fast = torch.compile(double, backend="npugraph")
for i in itertools.count():
    print(i, fast(torch.ones(2)))
"""


def bench(*arguments: str, folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "npugraph", "bench", *arguments, cwd=folder, **more)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "script.py").write_text(SCRIPT)
    return bench("--no-inductor", "--repeat", "2", "--json", "times.json", "script.py", folder=folder), folder


def test_each_graph_has_a_row(done) -> None:
    result, _ = done
    assert result.returncode == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert re.split("  +", head) == ["graph", "shapes", "calls", "npugraph ms", "eager ms", "to eager", "bound by"]
    cells = [re.split("  +", row) for row in rows]
    assert [row[:3] for row in cells] == [
        ["scaled_0", "float32[4, 8], float32[8, 8]", "2 of 3"],
        ["keep_0", "float32[4, 8], int64[1], float32[1, 8]", "4"],
        ["Linear_0, with gradients", "float32[4, 8]", "1"],
        ["step_0", cells[3][1], "1"],
    ]
    for *_, ours, eager, ratio, bound in cells:
        assert float(ours) > 0 and float(eager) > 0 and float(ratio) > 0
        assert bound.split(",")[0] in KINDS


def test_the_figures_are_in_a_file(done) -> None:
    _, folder = done
    figures = json.loads((folder / "times.json").read_text())
    assert figures["script"] == "script.py"
    first = figures["graphs"][0]
    assert (first["name"], first["calls"], first["calls_alike"]) == ("scaled_0", 3, 2)
    assert set(first["milliseconds"]) == {"npugraph", "eager"}
    assert [graph["gradients"] for graph in figures["graphs"]] == [False, False, True, False]
    assert not any(graph["problems"] for graph in figures["graphs"])


def test_what_a_call_writes_is_undone() -> None:
    """Neither a tensor of the script nor a parameter, which is not copied, keeps what the timed calls wrote."""

    def count(steps: torch.Tensor, weight: torch.nn.Parameter) -> torch.Tensor:
        weight.mul_(2)
        return steps.add_(1)

    functions = Functions([], None)
    backend.interposers.append(functions.compile)
    try:
        steps, weight = torch.zeros(3), torch.nn.Parameter(torch.ones(3))
        with torch.no_grad():
            torch.compile(count, backend="npugraph")(steps, weight)
    finally:
        backend.interposers.remove(functions.compile)
    (function,) = functions
    row = measure(function, [], Effort(seconds=0, turns=3), with_inductor=False)
    assert row.problems == {}
    assert set(row.milliseconds) == {OURS, EAGER}
    assert (steps.tolist(), weight.tolist()) == ([1] * 3, [2] * 3)
    assert function.call is not None
    assert sorted(tensor.tolist() for tensor in function.call.arguments) == [[0] * 3, [2] * 3]


def test_inductor_is_timed_too(tmp_path) -> None:
    (tmp_path / "script.py").write_text(ENDLESS)
    result = bench("--repeat", "1", "--calls", "2", "script.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    *calls, head, row = result.stdout.splitlines()
    assert len(calls) == 2
    assert re.split("  +", head)[3:8] == ["npugraph ms", "eager ms", "Inductor ms", "to eager", "to Inductor"]
    assert all(float(cell) > 0 for cell in re.split("  +", row)[3:8])


def test_a_machine_without_a_compiler_of_cxx(tmp_path, monkeypatch) -> None:
    """Inductor compiles nothing there, and one line says so."""
    (tmp_path / "script.py").write_text(NO_COMPILER + ENDLESS)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "empty"))
    result = bench("--repeat", "1", "--calls", "2", "script.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if "Inductor" in line)
    assert line.startswith("bench: Inductor does not compile double_0: InvalidCxxCompiler: ")
    cells = re.split("  +", result.stdout.splitlines()[-1])
    assert float(cells[3]) > 0 and float(cells[4]) > 0 and (cells[5], cells[7]) == ("-", "-")


def test_errors_of_the_script_are_shown_as_python_shows_them(tmp_path) -> None:
    (tmp_path / "script.py").write_text(BROKEN)
    result = bench("--no-inductor", "--repeat", "1", "script.py", "--flag", folder=tmp_path)
    assert result.returncode == 1
    argv, _, failed, sine = result.stdout.splitlines()
    assert argv == "['script.py', '--flag']"
    assert re.split("  +", failed) == ["outside_0", "float32[3], int64[1]", "1", "-", "-", "-", "-"]
    assert sine.startswith("graph_0")
    trace, remarks = result.stderr.split("ValueError: the script's own\n")
    assert trace.count("  File ") == 1 and 'script.py", line 15, in <module>' in trace
    assert "bench: not timed: outside_0: its first call raised an error" in remarks.splitlines()


def test_scripts_with_nothing_to_time(tmp_path) -> None:
    result = bench("nowhere.py", folder=tmp_path)
    assert (result.returncode, result.stderr) == (2, "bench: there is no script nowhere.py\n")
    (tmp_path / "plain.py").write_text("import sys\nsys.exit(0)\n")
    result = bench("plain.py", folder=tmp_path)
    nothing = "bench: plain.py calls no graph that it compiled with backend npugraph or npugraph_ex\n"
    assert (result.returncode, result.stderr) == (2, nothing)
    result = bench("--json", "nowhere/times.json", "plain.py", folder=tmp_path)
    assert (result.returncode, result.stderr) == (2, "bench: there is no folder nowhere\n")


@pytest.mark.parametrize("wrong", [["--repeat", "0"], ["--seconds", "-1"], ["--seconds", "1", "--repeat", "2"]])
def test_effort_that_makes_no_sense(wrong, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        commands.main(["bench", *wrong, "script.py"])
    assert caught.value.code == 2
    assert "argument --" in capsys.readouterr().err
